// The second file of one_definition.cpp, with the headers in the opposite order.
#include <backward/all_headers.hpp>

const void* seen_again();
const void* seen_again() {
  return &stepprof::error_category();
}
