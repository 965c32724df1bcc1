// Objects of two sources that record when they come and when they go.
#pragma once

namespace lifetimes {

struct first {};   // the source that is compiled with OWN=first
struct second {};  // and the other one

// Makes the static object of a function of that source.
void touch_function_static(first);
void touch_function_static(second);
// The same for the calling thread's own object.
void touch_thread_local(first);
void touch_thread_local(second);

// The source whose static objects were made first.
extern const char* made_first;

}  // namespace lifetimes
