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
  // Of a window that nobody wants to see: events are counted, and all of them are one.
  struct only_counted {};

  event_list() = default;
  explicit event_list(only_counted) : own_(std::make_shared<std::vector<trace_event>>(1)), all_(own_.get()), mask_(0) {}
  // `all` must stay where it is as long as this is used.
  explicit event_list(std::vector<trace_event>& all) : all_(&all), first_(all.size()) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] trace_event& operator[](std::size_t index) noexcept { return (*all_)[first_ + (index & mask_)]; }
  [[nodiscard]] const trace_event& operator[](std::size_t index) const noexcept {
    return (*all_)[first_ + (index & mask_)];
  }
  // Not of a list that only counts.
  [[nodiscard]] trace_event* begin() noexcept { return empty() ? nullptr : all_->data() + first_; }
  [[nodiscard]] trace_event* end() noexcept { return begin() + size_; }
  [[nodiscard]] const trace_event* begin() const noexcept { return empty() ? nullptr : all_->data() + first_; }
  [[nodiscard]] const trace_event* end() const noexcept { return begin() + size_; }

  // Valid until the next one.
  trace_event& add() {
    if (all_ == nullptr) all_ = (own_ = std::make_shared<std::vector<trace_event>>()).get();
    trace_event& added = mask_ != 0 ? all_->emplace_back() : all_->front();
    ++size_;
    return added;
  }

 private:
  std::shared_ptr<std::vector<trace_event>> own_;  // shared: a replay can be copied, with what it has not yet begun
  std::vector<trace_event>* all_ = nullptr;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::size_t mask_ = ~std::size_t{0};  // of indices
};

}  // namespace detail

STEPPROF_END_NAMESPACE
