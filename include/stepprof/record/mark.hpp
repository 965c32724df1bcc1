// Marks: points in time, and counters.
#pragma once

#include <stepprof/core/registry.hpp>
#include <stepprof/record/text_ref.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

STEPPROF_COLD inline void write_mark(tag t, text_ref name, const record_part* value) noexcept {
  const cold_table* const cold = cold_paths();
  if (cold != nullptr)
    cold->append(make_what(t, cold->intern(name.data(), name.size())), true, value, value != nullptr ? 1 : 0, 0);
}

}  // namespace detail

/// A point in time on the calling thread's track. Does nothing while nothing records. Any thread.
inline void mark(text_ref name) noexcept {
  if (detail::gate_is_open()) detail::write_mark(detail::tag::instant, name, nullptr);
}

/// The value of a counter from now on; one counter per name. Does nothing while nothing records. Any thread.
inline void counter(text_ref name, double value) noexcept {
  if (!detail::gate_is_open()) return;
  const detail::record_part part{&value, 8};
  detail::write_mark(detail::tag::counter, name, &part);
}

STEPPROF_END_NAMESPACE
