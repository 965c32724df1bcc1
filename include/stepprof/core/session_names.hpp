// The names of a recording session, and how a log says of which session its names are.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include <stepprof/core/log_room.hpp>
#include <stepprof/core/name_table.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Names given at run time live for one session. Two tables take turns: a session uses one, the next start clears the
// other, so that words written in the last moment before a start still find their names.
struct STEPPROF_SHARED runtime_names {
  name_table sites;  // of call sites: for ever
  name_table runtime[2];
  std::atomic<std::uint32_t> session{1};  // its lowest bit picks the table
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT runtime_names the_names{};

// Between the look-up of a name and the record that holds its id other sessions may begin, when the thread is stalled
// in between. So the log says of which session its names are; the reader then knows an id whose name is gone. False
// when there is no room.
inline bool note_name_session(log_block& log, std::uint32_t session) noexcept {
  if (log.name_session == session) return true;
  const stamp now = read_clock();
  if (!make_room(log, now, 16, 0)) return false;
  char* const at = cursor(log);
  const std::uint64_t payload = session;
  store_word(at, now.low, make_what(tag::name_session, 0));
  std::memcpy(at + 8, &payload, 8);
  publish_record(log, 16);
  log.name_session = session;
  return true;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
