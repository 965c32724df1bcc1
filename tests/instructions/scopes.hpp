// What flags.cpp counts the instructions of.
#pragma once

namespace counted {

struct line {
  const char* what;
  void (*run)();
};

extern const line recorded[8];  // while a profile records scopes alone
extern const line off[2];       // while none does
void malloc_and_free();

}  // namespace counted
