# What the library and its tests stand on. An installed package always wins; nothing is downloaded unasked.

# Makes `target` available: from the surrounding project, from find_package, or (only with STEPPROF_FETCH_DEPENDENCIES)
# from the repository at the given tag. Without any of them the target does not exist afterwards.
function(stepprof_find package version target repository tag)
  if(TARGET ${target})
    return()
  endif()
  find_package(${package} ${version} QUIET)
  if(TARGET ${target} OR NOT STEPPROF_FETCH_DEPENDENCIES)
    return()
  endif()
  include(FetchContent)
  FetchContent_Declare(${package} GIT_REPOSITORY ${repository} GIT_TAG ${tag} GIT_SHALLOW TRUE)
  FetchContent_MakeAvailable(${package})
endfunction()

# Stops with a message that says what to do when one of the targets is not there.
function(stepprof_require)
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      message(FATAL_ERROR
        "stepprof: ${target} was not found. Install it (on Debian and Ubuntu: sh cmake/install-dependencies.sh), add its "
        "prefix to CMAKE_PREFIX_PATH, or allow the download with -DSTEPPROF_FETCH_DEPENDENCIES=ON.")
    endif()
  endforeach()
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
stepprof_find(fmt 9 fmt::fmt https://github.com/fmtlib/fmt.git 10.2.1)
find_package(ZLIB QUIET)
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
find_package(ISAL QUIET)
find_package(Elfutils QUIET)
if(STEPPROF_WITH_TORCH)
  find_package(LibTorch QUIET)
  if(NOT TARGET LibTorch::LibTorch AND PROJECT_IS_TOP_LEVEL)
    message(STATUS "stepprof: libtorch was not found: stepprof::torch, its example and tests are left out")
  endif()
endif()
list(POP_FRONT CMAKE_MODULE_PATH)
stepprof_find(nlohmann_json 3.10 nlohmann_json::nlohmann_json https://github.com/nlohmann/json.git v3.11.3)
