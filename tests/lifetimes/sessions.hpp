// What these programs do with whole profiles: the one source that includes the whole library is compiled once.
#pragma once

#include <atomic>
#include <cstdint>

namespace lifetimes {

// A profile that is never destroyed.
void start_session();
void stop_session();
// One that is a static object: its destructor stops it while the program ends.
void start_static_session();

// In what is recorded so far, whether it was stopped or not.
std::int64_t calls(const char* name);
// Scopes of the process in traces, or recorded too late for one.
std::uint64_t recorded_so_far();
std::uint64_t dropped_so_far();

// Return the exit code.
int fork_while_threads_record();
int record_in_callbacks();

// Whether operator new and delete record.
extern std::atomic<bool> operators_record;

}  // namespace lifetimes
