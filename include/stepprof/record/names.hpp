// Names of threads and of the process, as the trace shows them.
#pragma once

#include <stepprof/core/registry.hpp>
#include <stepprof/record/text_ref.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Names the calling thread in every trace made from now on. Ends at a zero byte; cut to 46 bytes, at a character.
/// Without it the system's name is shown.
inline void set_thread_name(text_ref name) noexcept {
  detail::thread_block& mine = detail::this_thread;
  const std::size_t size = detail::size_within(name, sizeof mine.name - 1);
  for (std::size_t i = 0; i < size; ++i) mine.name[i] = name.data()[i];
  mine.name[size] = 0;
  const detail::cold_table* const cold = detail::cold_paths();
  if (cold != nullptr) cold->set_thread_name(mine.name, size);
}

/// Names the process in every trace made from now on. Ends at a zero byte; cut to 63 bytes, at a character. Without
/// it the program's file name is shown. Any thread.
inline void set_process_name(text_ref name) noexcept {
  detail::the_registry.process_name.set(name.data(), detail::size_within(name, 63));
}

STEPPROF_END_NAMESPACE
