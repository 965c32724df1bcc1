// Ends that were written by another thread than began the scope, put to their scopes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <stepprof/trace/log_replay.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// What one thread did in a window, and the state of its log behind it.
struct replayed_thread {
  thread_record record;
  log_replay* replay;
};

// Logs are noted one after the other, so the end of a scope may lie before the cut of its log and the begin behind the
// cut of its own. Ends without a scope therefore wait for one more window.
class foreign_ends {
 public:
  // Ends that have no begin: some of the window before.
  struct unmatched {
    std::uint64_t ends = 0;
    std::uint64_t overwritten = 0;  // of scopes of a log of which a part was overwritten
  };
  // Ends the scopes of one window.
  // Of several scopes with the end's name the last that had begun by then is meant; when clocks of two processors
  // disagree and none had, the first.
  template <class Thread>
  unmatched settle(std::vector<Thread>& threads) {
    const std::size_t old = waiting_.size();
    std::vector<thread_record::foreign_end> ends = std::move(waiting_);
    waiting_.clear();
    for (const Thread& t : threads) ends.insert(ends.end(), t.record.foreign_ends.begin(), t.record.foreign_ends.end());
    if (ends.empty()) return {};
    // Several threads may have ended scopes of one name: in the order in which they did.
    const auto earlier = [](const auto& a, const auto& b) { return a.ticks < b.ticks; };
    const auto fresh = ends.begin() + static_cast<std::ptrdiff_t>(old);
    sort_stably(ends.begin(), fresh, earlier);
    sort_stably(fresh, ends.end(), earlier);
    index<Thread> scopes(ends, threads);
    unmatched left;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const bool waited = i < old;
      if (scopes.close(ends[i], !waited)) continue;
      if (waited)
        ++(has_gap(ends[i], threads) ? left.overwritten : left.ends);
      else
        waiting_.push_back(ends[i]);
    }
    for (Thread& t : threads) t.replay->forget_ended();
    return left;
  }
  void clear() noexcept { waiting_.clear(); }

 private:
  template <class Thread>
  static bool has_gap(const thread_record::foreign_end& end, const std::vector<Thread>& threads) {
    const std::uint32_t thread = end.serial != 0 ? static_cast<std::uint32_t>(end.serial >> 32) : end.thread;
    return std::any_of(threads.begin(), threads.end(),
                       [thread](const Thread& t) { return t.record.thread == thread && t.replay->has_gap(); });
  }

  // The open scopes that the ends may mean.
  template <class Thread>
  class index {
   public:
    index(const std::vector<thread_record::foreign_end>& ends, std::vector<Thread>& threads) {
      for (const thread_record::foreign_end& end : ends)
        if (end.serial == 0) named_[key(end.thread, end.id)];
      for (Thread& t : threads)
        t.replay->visit_open([&](log_replay::open_scope& scope) {
          if (scope.serial != 0) {
            manual_[scope.serial] = {&scope, &t};
          } else if (const auto found = named_.find(key(t.record.thread, scope.id)); found != named_.end()) {
            found->second[{scope.begin_ticks, scope.event + 1}] = {&scope, &t};  // npos, an earlier window: first
          }
        });
    }

    bool close(const thread_record::foreign_end& end, bool may_begin_later) {
      if (end.serial != 0) {
        const auto found = manual_.find(end.serial);
        if (found == manual_.end()) return false;
        apply(end, found->second);
        manual_.erase(found);
        return true;
      }
      by_begin& scopes = named_[key(end.thread, end.id)];
      auto found = scopes.upper_bound({end.ticks, ~std::uint32_t{0}});
      if (found != scopes.begin())
        --found;
      else if (scopes.empty() || !may_begin_later)
        return false;
      apply(end, found->second);
      scopes.erase(found);
      return true;
    }

   private:
    struct place {
      log_replay::open_scope* scope;
      Thread* owner;
    };
    using by_begin = std::map<std::pair<std::uint64_t, std::uint32_t>, place>;
    static std::uint64_t key(std::uint32_t thread, std::uint32_t id) noexcept {
      return (static_cast<std::uint64_t>(thread) << 32) | id;
    }
    static void apply(const thread_record::foreign_end& end, const place& at) {
      thread_record& record = at.owner->record;
      record.unneeded_bytes += end.serial != 0 ? 16u : 8u;
      at.scope->ended = true;
      if (at.scope->event == npos) return;
      trace_event& e = record.events[at.scope->event];
      e.end_ns = static_cast<std::int64_t>((std::max)(end.ticks, static_cast<std::uint64_t>(e.begin_ns)));
      e.flags = e.has(trace_event::async) ? trace_event::async : trace_event::other_thread;
      record.has_strays = true;
    }

    wide_key_map<by_begin> named_;  // by thread and name
    wide_key_map<place> manual_;    // by serial number
  };

  std::vector<thread_record::foreign_end> waiting_;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
