// The ids of the names of ops that a thread has used in this session. A training step has about as many names as the
// cache in a thread's log has places, and the engine's are longer than what that one holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <stepprof/core/cold_paths.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Of one thread. Verifies the text: libtorch's names need not be where they were, nor what they were.
class torch_name_cache {
 public:
  std::uint32_t id_of(const char* name, std::size_t size, const cold_table& cold) noexcept {
    if (size > sizeof(entry::text)) return cold.intern(name, size);
    // Acquire: the table of this session is clean before its names are used.
    const std::uint32_t session = the_names.session.load(std::memory_order_acquire);
    entry& known = entries_[slot_of(name, size)];
    // The thread: after a fork it has another log, which has yet to say of which session its names are.
    if (known.session == session && known.size == size && known.thread == this_thread_id() &&
        std::memcmp(known.text, name, size) == 0)
      return known.id;
    const std::uint32_t id = cold.intern(name, size);
    if (id != overflow_name && session == the_names.session.load(std::memory_order_acquire)) {
      known = {session, id, static_cast<std::uint32_t>(size), this_thread_id(), {}};
      std::memcpy(known.text, name, size);
    }
    return id;
  }

 private:
  struct entry {
    std::uint32_t session = 0;  // 0: empty
    std::uint32_t id = 0;
    std::uint32_t size = 0;
    std::uint32_t thread = 0;
    char text[112] = {};
  };
  static constexpr std::size_t places = 256;  // a power of two; 32 KiB

  // FNV-1a over words (Fowler, Noll, Vo), from the end: where the names of ops differ.
  static std::uint64_t slot_of(const char* name, std::size_t size) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325u ^ size;
    for (; size >= 8; size -= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, name + size - 8, 8);
      hash = (hash ^ word) * 0x100000001b3u;
    }
    for (; size > 0; --size) hash = (hash ^ static_cast<unsigned char>(name[size - 1])) * 0x100000001b3u;
    return ((hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u >> 32) % places;
  }

  entry entries_[places];
};

}  // namespace detail
STEPPROF_END_NAMESPACE
