// A chunk: a piece of one thread's log, and the header that lets it be replayed alone.
#pragma once

#include <atomic>
#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Number of a piece of the pool: block number << 5 | 16 for a small piece | index of the small piece. 0 is "none".
// Numbers, never pointers, stand in the pool, so that it could be mapped at another address by another process.
using block_ref = std::uint32_t;

enum class chunk_state : std::uint32_t {
  free = 0,
  taken = 1,    // out of the pool, not yet part of a log
  writing = 2,  // the current chunk of a thread: never taken from it
  sealed = 3    // its owner has moved on; nothing will be written any more
};

inline constexpr std::uint32_t chunk_magic = 0x4b4e4843u;  // "CHNK"

struct alignas(64) chunk_header {
  std::uint32_t magic;
  std::uint32_t thread;    // logical id of the owner
  std::uint32_t sequence;  // unique in the process
  std::uint32_t bytes;     // of the whole chunk, header included
  std::uint32_t base_low;  // time of the entry; the high half holds for the first word
  std::uint32_t base_high;
  std::uint32_t reserved_at_entry;  // bytes kept free for ends of scopes that were open at the entry
  std::uint32_t dropped_before;     // begins of this thread refused so far
  // How many bytes hold whole records, header included. Of a sealed chunk; while it is written, its log knows.
  std::atomic<std::uint64_t> published;
  std::atomic<std::uint32_t> state;  // chunk_state
  std::atomic<block_ref> next;       // the owner's next chunk; not 0 means: sealed, `published` is final
  std::uint32_t name_session;        // of the run-time names up to the first that the chunk itself notes
  // How many bytes the control side has read, header included. Of a log's oldest chunk, while nobody holds the log.
  std::atomic<std::uint32_t> read;
};
static_assert(sizeof(chunk_header) == 64, "the header is one cache line");

[[nodiscard]] inline std::uint32_t published_bytes(const chunk_header* chunk) noexcept {
  // Acquire: the records are visible with it.
  return static_cast<std::uint32_t>(chunk->published.load(std::memory_order_acquire));
}

[[nodiscard]] inline char* end_of_chunk(chunk_header* chunk) noexcept {
  return reinterpret_cast<char*>(chunk) + chunk->bytes;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
