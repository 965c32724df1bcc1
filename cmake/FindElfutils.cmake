# find_package(Elfutils): libdw of elfutils as the target Elfutils::dw.
find_path(Elfutils_INCLUDE_DIR elfutils/libdwfl.h)
find_library(Elfutils_LIBRARY dw)
mark_as_advanced(Elfutils_INCLUDE_DIR Elfutils_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Elfutils REQUIRED_VARS Elfutils_LIBRARY Elfutils_INCLUDE_DIR)
if(Elfutils_FOUND AND NOT TARGET Elfutils::dw)
  add_library(Elfutils::dw UNKNOWN IMPORTED)
  set_target_properties(Elfutils::dw PROPERTIES
    IMPORTED_LOCATION "${Elfutils_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Elfutils_INCLUDE_DIR}")
endif()
