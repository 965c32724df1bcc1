// The events of one thread on their way to a trace.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A range of an array that all threads of a window share, so that nothing is copied on the way to the trace; or, made
// without one, an array of its own. Grows only as long as it is the last range. An index counts from its first event.
class event_list {
 public:
  event_list() = default;
  // `all` must stay where it is as long as this is used.
  explicit event_list(std::vector<trace_event>& all) : all_(&all), first_(all.size()) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] trace_event& operator[](std::size_t index) noexcept { return (*all_)[first_ + index]; }
  [[nodiscard]] const trace_event& operator[](std::size_t index) const noexcept { return (*all_)[first_ + index]; }
  [[nodiscard]] trace_event* begin() noexcept { return empty() ? nullptr : all_->data() + first_; }
  [[nodiscard]] trace_event* end() noexcept { return begin() + size_; }
  [[nodiscard]] const trace_event* begin() const noexcept { return empty() ? nullptr : all_->data() + first_; }
  [[nodiscard]] const trace_event* end() const noexcept { return begin() + size_; }

  // Valid until the next one.
  trace_event& add() {
    if (all_ == nullptr) all_ = (own_ = std::make_shared<std::vector<trace_event>>()).get();
    trace_event& added = all_->emplace_back();
    ++size_;
    return added;
  }

 private:
  std::shared_ptr<std::vector<trace_event>> own_;  // shared: a replay can be copied, with what it has not yet begun
  std::vector<trace_event>* all_ = nullptr;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
