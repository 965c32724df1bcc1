# Installs the headers and a package for find_package(stepprof [COMPONENTS record stepprof tools zlib isal elfutils libunwind torch]).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/stepprof")  # headers only: the same on every architecture

# A component is installed when what it needs was found. What was downloaded is not installed and cannot be pointed to.
set(needs_record "")
set(needs_stepprof fmt::fmt)
set(needs_tools fmt::fmt nlohmann_json::nlohmann_json)
set(needs_zlib fmt::fmt ZLIB::ZLIB)
set(needs_isal fmt::fmt ISAL::ISAL)
set(needs_elfutils fmt::fmt Elfutils::dw)
set(needs_libunwind fmt::fmt)
set(needs_torch fmt::fmt LibTorch::LibTorch)

# One export set per component, so that stepprof::record can be loaded where fmt is not installed.
foreach(component IN ITEMS record stepprof tools zlib isal elfutils libunwind torch)
  set(installable TRUE)
  foreach(need IN LISTS needs_${component})
    set(found FALSE)
    if(TARGET ${need})
      get_target_property(found ${need} IMPORTED)
    endif()
    if(NOT found)
      set(installable FALSE)
    endif()
  endforeach()
  if(installable AND TARGET stepprof_${component})
    install(TARGETS stepprof_${component} EXPORT stepprof-${component}
            FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
            INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")  # CMake before 3.23 knows no file sets
    install(EXPORT stepprof-${component} NAMESPACE stepprof:: DESTINATION "${package_dir}")
  endif()
endforeach()

configure_package_config_file(cmake/stepprof-config.cmake.in "${PROJECT_BINARY_DIR}/stepprof-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
# 0.x: a minor version may break.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/stepprof-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/stepprof-config.cmake" "${PROJECT_BINARY_DIR}/stepprof-config-version.cmake"
        cmake/FindISAL.cmake cmake/FindElfutils.cmake cmake/FindLibTorch.cmake DESTINATION "${package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
