// What a sanitizer has instrumented this program for.
#pragma once

namespace test {

#if defined(__has_feature)
inline constexpr bool address_sanitized = __has_feature(address_sanitizer);
inline constexpr bool thread_sanitized = __has_feature(thread_sanitizer);
#else
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitized = true;
#else
inline constexpr bool address_sanitized = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif
#endif
inline constexpr bool sanitized = address_sanitized || thread_sanitized;

}  // namespace test
