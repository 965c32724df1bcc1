// Memory by scope: what each event allocated, freed and held at most, and in which scope a free counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Memory of the CPU that one event, or one row of events, allocated and freed. Sums end at 2^63 - 1.
struct memory_sums {
  std::int64_t allocated_bytes = 0;
  std::int64_t freed_bytes = 0;  ///< Positive. Only frees whose allocation is in the trace.
  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::int64_t unmatched_frees = 0;  ///< Frees of memory allocated before the window: counted, without bytes.

  [[nodiscard]] std::int64_t net_bytes() const noexcept { return detail::saturating_sub(allocated_bytes, freed_bytes); }

  memory_sums& operator+=(const memory_sums& other) noexcept {
    allocated_bytes = detail::saturating_add(allocated_bytes, other.allocated_bytes);
    freed_bytes = detail::saturating_add(freed_bytes, other.freed_bytes);
    allocations = detail::saturating_add(allocations, other.allocations);
    frees = detail::saturating_add(frees, other.frees);
    unmatched_frees = detail::saturating_add(unmatched_frees, other.unmatched_frees);
    return *this;
  }
};

/// The scope in which a free counts.
enum class free_booking : std::uint8_t {
  freeing_scope,     ///< That in which it was made. A scope that frees what another one allocated shows negative bytes.
  allocating_scope,  ///< That in which its block was allocated: what a row has left over is what it leaked, or gave
                     ///< away.
};

/// Which memory is looked at, and how it is booked.
struct memory_use_options {
  free_booking booking = free_booking::freeing_scope;
  /// Memory of this pool only; "" is the default pool. Without: of all pools, each byte once.
  std::optional<std::string> pool = {};

  [[nodiscard]] bool is_default() const noexcept { return booking == free_booking::freeing_scope && !pool; }
};

/// True for memory that the CPU columns count: the plain CPU and the two CPU back ends that libtorch numbers apart.
[[nodiscard]] constexpr bool is_cpu_memory(const memory_event& event) noexcept {
  return event.device_type == 0 || event.device_type == 2 || event.device_type == 5;
}

/// What the events of a trace allocated and freed. Linear in the number of events. Does not hold the trace, which it is
/// made of. Any thread may share a const one.
class memory_use {
 public:
  memory_use() = default;
  explicit memory_use(const trace& source, const memory_use_options& options = {});

  /// Whether any memory was reported at all, of whatever pool.
  [[nodiscard]] bool has_memory() const noexcept { return has_memory_; }
  /// Reported while the event was the innermost open one of its thread.
  [[nodiscard]] const memory_sums& self(std::uint32_t event) const noexcept {
    return self_.empty() ? none() : self_[event];
  }
  /// Of the event and of everything nested in it.
  [[nodiscard]] const memory_sums& total(std::uint32_t event) const noexcept {
    return total_.empty() ? none() : total_[event];
  }
  /// The most that the event's thread had allocated and not freed since the event began, in bytes; at least 0. What
  /// other threads did meanwhile is not in it, and where frees are booked does not matter.
  [[nodiscard]] std::int64_t peak_bytes(std::uint32_t event) const noexcept { return peak_.empty() ? 0 : peak_[event]; }
  /// Reported outside every scope.
  [[nodiscard]] const memory_sums& outside() const noexcept { return outside_; }

  /// Whether the memory event counts, the event that it is booked to (npos: outside), and what it adds there.
  [[nodiscard]] bool counts(const memory_event& m) const noexcept {
    return options_.pool ? m.pool == pool_ && is_known_pool_ : is_cpu_memory(m) && !m.has(memory_event::nested);
  }
  [[nodiscard]] std::uint32_t booked_to(const trace& source, const memory_event& m) const noexcept {
    const bool elsewhere = options_.booking == free_booking::allocating_scope && m.allocation != npos;
    return elsewhere ? source.memory()[m.allocation].event : m.event;
  }
  [[nodiscard]] static memory_sums sums_of(const memory_event& m) noexcept;

 private:
  static const memory_sums& none() noexcept {
    static const memory_sums nothing;
    return nothing;
  }
  void sum(const trace& source);
  void find_peaks(const trace& source);

  memory_use_options options_;
  std::uint32_t pool_ = npos;
  bool is_known_pool_ = true;
  bool has_memory_ = false;
  std::vector<memory_sums> self_;  // empty when the trace has no memory events
  std::vector<memory_sums> total_;
  std::vector<std::int64_t> peak_;
  memory_sums outside_;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// The open scopes of one thread in which memory was reported, and the most bytes that each saw. Bytes are counted
// modulo 2^64, in which differences are exact.
class open_memory {
 public:
  // A report in `event`, which ends with the last event before `end`.
  void add(std::uint32_t event, const trace& source, const std::vector<std::uint32_t>& ends, std::int64_t bytes,
           std::vector<std::int64_t>& peak) {
    enter(event, source, ends, peak);
    now_ += static_cast<std::uint64_t>(bytes);
    if (!open_.empty()) raise(open_.back(), now_);
  }
  void close(std::vector<std::int64_t>& peak) {
    while (!open_.empty()) pop(peak);
  }

 private:
  struct scope {
    std::uint32_t event;
    std::uint64_t entry;
    std::int64_t most;  // above the entry
  };
  void enter(std::uint32_t event, const trace& source, const std::vector<std::uint32_t>& ends,
             std::vector<std::int64_t>& peak) {
    const auto encloses = [&](std::uint32_t outer) { return event != npos && outer <= event && event < ends[outer]; };
    while (!open_.empty() && !encloses(open_.back().event)) pop(peak);
    const std::size_t below = open_.size();
    const std::uint32_t outer = open_.empty() ? npos : open_.back().event;
    for (std::uint32_t e = event; e != outer && e != npos; e = source.events()[e].parent) open_.push_back({e, now_, 0});
    std::reverse(open_.begin() + static_cast<std::ptrdiff_t>(below), open_.end());
  }
  static void raise(scope& s, std::uint64_t bytes) noexcept {
    s.most = (std::max)(s.most, static_cast<std::int64_t>(bytes - s.entry));
  }
  void pop(std::vector<std::int64_t>& peak) {
    const scope closed = open_.back();
    open_.pop_back();
    peak[closed.event] = (std::max)(peak[closed.event], closed.most);
    if (!open_.empty()) raise(open_.back(), closed.entry + static_cast<std::uint64_t>(closed.most));
  }

  std::vector<scope> open_;
  std::uint64_t now_ = 0;  // allocated less freed
};

// One past the last event nested in each.
inline std::vector<std::uint32_t> subtree_ends(const std::vector<trace_event>& events) {
  std::vector<std::uint32_t> ends(events.size());
  for (std::size_t i = events.size(); i-- > 0;) {
    ends[i] = (std::max)(ends[i], static_cast<std::uint32_t>(i) + 1);
    if (events[i].parent != npos) ends[events[i].parent] = (std::max)(ends[events[i].parent], ends[i]);
  }
  return ends;
}

}  // namespace detail

inline memory_use::memory_use(const trace& source, const memory_use_options& options) : options_(options) {
  const detail::own_work own;
  has_memory_ = !source.memory().empty() || !source.unmatched_frees().empty();
  if (!has_memory_) return;
  if (options_.pool && !options_.pool->empty()) {
    pool_ = source.find_text(*options_.pool);
    is_known_pool_ = pool_ != npos;
  }
  sum(source);
  find_peaks(source);
}

// What one report adds to the sums of its scope.
inline memory_sums memory_use::sums_of(const memory_event& m) noexcept {
  memory_sums sums;
  if (m.is_free()) {
    sums.freed_bytes = detail::saturating_sub(0, m.bytes);
    sums.frees = 1;
  } else {
    sums.allocated_bytes = m.bytes;
    sums.allocations = 1;
  }
  return sums;
}

inline void memory_use::sum(const trace& source) {
  const std::vector<trace_event>& events = source.events();
  self_.resize(events.size());
  const auto place_of = [this](std::uint32_t event) -> memory_sums& { return event == npos ? outside_ : self_[event]; };
  for (const memory_event& m : source.memory())
    if (counts(m)) place_of(booked_to(source, m)) += sums_of(m);
  if (!options_.pool)  // of which pool they are is not kept
    for (const unmatched_free& free : source.unmatched_frees()) {
      memory_sums sums;
      sums.unmatched_frees = free.count;
      place_of(free.event) += sums;
    }
  total_ = self_;
  for (std::size_t i = events.size(); i-- > 0;)
    if (events[i].parent != npos) total_[events[i].parent] += total_[i];
}

// Memory events are in order of time, and those of one thread are booked to its scopes as these open and close. A scope
// that stands apart is on a track of its own.
inline void memory_use::find_peaks(const trace& source) {
  const std::vector<std::uint32_t> ends = detail::subtree_ends(source.events());
  peak_.assign(source.events().size(), 0);
  std::vector<detail::open_memory> threads(source.tracks().size());
  std::unordered_map<std::uint32_t, detail::open_memory> apart;  // by event
  for (const memory_event& m : source.memory()) {
    if (!counts(m) || m.has(memory_event::lost)) continue;
    const bool nests = m.event == npos || source.events()[m.event].track == m.track;
    detail::open_memory& open = nests ? threads[m.track] : apart[m.event];
    open.add(m.event, source, ends, m.bytes, peak_);
  }
  for (detail::open_memory& open : threads) open.close(peak_);
  for (auto& [event, open] : apart) open.close(peak_);
}

STEPPROF_END_NAMESPACE
