# A toolchain file: the newest clang++ that is installed beside the one called clang++, or that one where there is none.
set(names "")
foreach(version RANGE 99 10 -1)
  list(APPEND names clang++-${version})
endforeach()
find_program(STEPPROF_NEWEST_CLANG NAMES ${names} clang++ REQUIRED)
set(CMAKE_CXX_COMPILER "${STEPPROF_NEWEST_CLANG}")
