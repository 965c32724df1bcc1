# STEPPROF_SANITIZE: a list for -fsanitize=, for our own programs. Any finding ends the program, so that a test fails.
set(STEPPROF_SANITIZE "" CACHE STRING "Sanitizers for our own programs: address,undefined or thread")

if(STEPPROF_SANITIZE)
  set(flags -fsanitize=${STEPPROF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # g++ itself says that this warning is not reliable with sanitizers: it finds it in <regex>.
  target_compile_options(stepprof_development INTERFACE
    ${flags} $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(stepprof_development INTERFACE ${flags})
endif()

# For the ENVIRONMENT of tests.
set(stepprof_sanitizer_environment
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=second_deadlock_stack=1)
