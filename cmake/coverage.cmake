# STEPPROF_COVERAGE: our own programs count what of the headers they run, with clang++: its counters stand where the source
# has a branch. Counters are atomic, as many threads have them, and live in a file that is mapped into memory (%c): so the
# children of a fork count, and what a killed program ran is counted. All programs of one file (%m) add up.
# Shown by tests/coverage/show.sh. Without precompiled headers: what is in one is a header of the system to clang++, which
# counts nothing there.
option(STEPPROF_COVERAGE "Count what our own programs run of the headers (clang++ only)" OFF)

set(stepprof_instrumented OFF)  # then it is not the machine code of a user's program, nor as fast, nor as small
if(STEPPROF_SANITIZE OR STEPPROF_COVERAGE)
  set(stepprof_instrumented ON)
endif()

if(STEPPROF_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "stepprof: STEPPROF_COVERAGE needs clang++")
  endif()
  set(flags "-fprofile-instr-generate=${PROJECT_BINARY_DIR}/coverage/%m%c.profraw")
  target_compile_options(stepprof_development INTERFACE
    ${flags} -fcoverage-mapping -fprofile-update=atomic "SHELL:-mllvm -runtime-counter-relocation")
  target_link_options(stepprof_development INTERFACE ${flags})
endif()
