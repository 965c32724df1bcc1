# stepprof_development: what our own programs (tests, examples, benchmarks) are compiled with. Never exported. More than
# we would ask of ourselves: users compile our headers with these on.
option(STEPPROF_WARNINGS_AS_ERRORS "Warnings in our own programs are errors" ON)
option(STEPPROF_PORTABLE "Our own programs use the portable clock and plain memory" OFF)

add_library(stepprof_development INTERFACE)
target_compile_options(stepprof_development INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wcast-align
  -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wformat=2
  # With 32 bits a std::size_t is a std::uint32_t, and a cast to it useless.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<EQUAL:${CMAKE_SIZEOF_VOID_P},8>>:-Wuseless-cast>
  $<$<BOOL:${STEPPROF_WARNINGS_AS_ERRORS}>:-Werror>)
target_compile_definitions(stepprof_development INTERFACE $<$<BOOL:${STEPPROF_PORTABLE}>:STEPPROF_PORTABLE=1>)
