# find_package(LibTorch): PyTorch's C++ library as the target LibTorch::LibTorch. A project that has called
# find_package(Torch) before keeps what that found. Otherwise libtorch is found by its files, where Debian's libtorch-dev
# and the archives of pytorch.org have them: torch's own package asks loudly for CUDA and Caffe2.
include(FindPackageHandleStandardArgs)
if(TARGET torch AND TORCH_LIBRARIES)
  set(LibTorch_LIBRARY ${TORCH_LIBRARIES})
  set(LibTorch_INCLUDE_DIRS ${TORCH_INCLUDE_DIRS})
  separate_arguments(LibTorch_OPTIONS NATIVE_COMMAND "${TORCH_CXX_FLAGS}")
else()
  find_path(LibTorch_INCLUDE_DIR ATen/record_function.h)
  find_path(LibTorch_FRONT_END_INCLUDE_DIR torch/torch.h
    HINTS "${LibTorch_INCLUDE_DIR}" PATH_SUFFIXES torch/csrc/api/include)
  find_library(LibTorch_CPU_LIBRARY torch_cpu)
  find_library(LibTorch_C10_LIBRARY c10)
  mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_FRONT_END_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY)
  set(LibTorch_LIBRARY "")
  if(LibTorch_CPU_LIBRARY AND LibTorch_C10_LIBRARY)
    set(LibTorch_LIBRARY "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}")
  endif()
  set(LibTorch_INCLUDE_DIRS "")
  if(LibTorch_INCLUDE_DIR AND LibTorch_FRONT_END_INCLUDE_DIR)
    set(LibTorch_INCLUDE_DIRS "${LibTorch_INCLUDE_DIR}" "${LibTorch_FRONT_END_INCLUDE_DIR}")
  endif()
  set(LibTorch_OPTIONS "")
endif()

find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_LIBRARY LibTorch_INCLUDE_DIRS)
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIRS}"
    INTERFACE_COMPILE_OPTIONS "${LibTorch_OPTIONS}"
    INTERFACE_LINK_LIBRARIES "${LibTorch_LIBRARY}")
endif()
