# Sets stepprof_version from version.hpp, the one place where the version is written.
file(READ "${CMAKE_CURRENT_LIST_DIR}/../include/stepprof/version.hpp" text)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${CMAKE_CURRENT_LIST_DIR}/../include/stepprof/version.hpp")
set(stepprof_version "")
foreach(part IN ITEMS MAJOR MINOR PATCH)
  if(NOT text MATCHES "STEPPROF_VERSION_${part} ([0-9]+)")
    message(FATAL_ERROR "version.hpp: STEPPROF_VERSION_${part} is missing")
  endif()
  list(APPEND stepprof_version ${CMAKE_MATCH_1})
endforeach()
list(JOIN stepprof_version . stepprof_version)
