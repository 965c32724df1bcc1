# stepprof_add_library(<name> [LINKS <target>...] HEADERS <pattern>...)
#
# Adds the header-only target stepprof::<name>. The patterns are relative to include/stepprof; every header that matches
# is installed and, where the tests are built, compiled alone (target all_verify_interface_header_sets).
function(stepprof_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS;HEADERS")
  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/stepprof/")
  file(GLOB headers CONFIGURE_DEPENDS ${arg_HEADERS})

  set(compile_alone ${STEPPROF_COMPILE_HEADERS_ALONE})
  if(STEPPROF_SANITIZE OR STEPPROF_COVERAGE OR STEPPROF_PORTABLE)
    set(compile_alone OFF)  # these builds only run tests; others have compiled the headers
  endif()

  add_library(stepprof_${name} INTERFACE)
  add_library(stepprof::${name} ALIAS stepprof_${name})
  set_target_properties(stepprof_${name} PROPERTIES
    EXPORT_NAME ${name}
    VERIFY_INTERFACE_HEADER_SETS ${compile_alone})
  target_compile_features(stepprof_${name} INTERFACE cxx_std_17)
  target_link_libraries(stepprof_${name} INTERFACE ${arg_LINKS})
  target_sources(stepprof_${name} INTERFACE
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
endfunction()
