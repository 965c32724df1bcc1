// The macros of windows.h, in front of every header.
// FC-69: https://github.com/google/perfetto/issues/349
// Catches: a name of ours that is one of theirs, min and max that are not kept from being taken for macros, and headers
// of ours that define or undefine any.
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#define near
#define far
#define interface struct
#define ERROR 0
#define IN
#define OUT
#define Yield() yield
#define DELETE 0x10000L
#define CONST const
#define VOID void
#define TRUE 1
#define FALSE 0
#define NO_ERROR 0L
#define GetCurrentTime() 0
#define DrawText DrawTextA

#include <all_headers.hpp>

#if !defined(min) && !defined(_GLIBCXX_RELEASE)  // libstdc++ undefines min and max itself
#error "min is no macro any more"
#endif
#if !defined(small) || !defined(near) || !defined(far) || !defined(interface) || !defined(ERROR) || !defined(IN) || \
    !defined(OUT) || !defined(Yield) || !defined(TRUE) || !defined(DELETE)
#error "a header undefined a macro"
#endif

int main() {
  stepprof::profile prof;
  { STEPPROF_SCOPE("scope"); }
  prof.stop();
  return prof.key_averages().table().find("scope") == std::string::npos ? 1 : 0;
}
