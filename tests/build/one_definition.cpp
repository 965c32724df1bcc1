// Catches: a function or variable in a header that is not inline, so that a program of two files does not link.
#include <all_headers.hpp>

const void* seen_again();

int main() {
  // An inline object is one object, whichever file asks.
  return seen_again() == &stepprof::error_category() ? 0 : 1;
}
