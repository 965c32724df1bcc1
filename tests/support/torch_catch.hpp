// libtorch and Catch2 in one file: libtorch brings glog, whose CHECK is not a test's.
#pragma once

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/types.h>

#undef CHECK

#include <support/catch.hpp>
