// A short text that one thread may set while another reads it: thread and process names.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A sequence lock over atomic words (H.-J. Boehm, "Can seqlocks get along with programming language memory models?",
// MSPC 2012), without fences, which ThreadSanitizer does not know. Constant-initialised to the empty text. Longer texts are cut to 63 bytes.
struct shared_text {
  static constexpr std::size_t words = 16;
  std::atomic<std::uint32_t> version;  // odd while somebody writes
  std::atomic<std::uint32_t> word[words];

  // A set() that meets another one gives up: the other's text is as good as this one.
  void set(const char* text, std::size_t size) noexcept {
    if (size > words * 4 - 1) size = words * 4 - 1;
    std::uint32_t before = version.load(std::memory_order_relaxed);
    if ((before & 1u) != 0 || !version.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) return;
    for (std::size_t i = 0; i < words; ++i) {
      std::uint32_t four = 0;
      for (std::size_t k = 0; k < 4; ++k)
        if (i * 4 + k < size)
          four |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[i * 4 + k])) << (8 * k);
      // Release: whoever reads a new word finds the odd version, or a later one, when it looks again.
      word[i].store(four, std::memory_order_release);
    }
    version.store(before + 2, std::memory_order_release);
  }

  // Copies the text, ended by 0, into `out` of 64 bytes.
  void get(char* out) const noexcept {
    for (int tries = 0; tries < 1000; ++tries) {
      const std::uint32_t before = version.load(std::memory_order_acquire);
      for (std::size_t i = 0; i < words; ++i) {
        // Acquire: the version is read again after the words.
        const std::uint32_t four = word[i].load(std::memory_order_acquire);
        for (std::size_t k = 0; k < 4; ++k) out[i * 4 + k] = static_cast<char>((four >> (8 * k)) & 0xffu);
      }
      if ((before & 1u) == 0 && version.load(std::memory_order_relaxed) == before) return;
    }
    out[0] = 0;
  }
};

}  // namespace detail

STEPPROF_END_NAMESPACE
