// libtorch: every op, autograd node and user scope of a PyTorch C++ program in the profile, with its inputs and its
// memory. Link stepprof::torch.
#pragma once

#include <cstdint>
#include <system_error>

#include <ATen/record_function.h>

#include <stepprof/adapters/torch_memory.hpp>
#include <stepprof/adapters/torch_scopes.hpp>
#include <stepprof/session/gate_listener.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

/// While one lives, profiles also record what libtorch does, on all threads:
///
///     stepprof::torch_observer torch;
///     stepprof::profile prof(options);
///
/// - Every op and every other range that libtorch knows (at::RecordFunction), with name and kind: nodes of the backward
///   pass are `backward_op`, RECORD_USER_SCOPE is `user_annotation`, all others are `op`.
/// - Sequence numbers, and for backward nodes the thread of the forward op: the arrows of the trace. The wrapper that
///   the engine puts around a node shows the node's number. A node whose forward op was not recorded has no arrow.
/// - With record_shapes sizes, strides, element types and scalars of the inputs. Copying those is most of the cost.
/// - With profile_memory what the CPU allocator gives and gets back, in the bytes that were asked for.
///
/// Nothing is added to an op while no profile records, and some 20 to 40 ns to an allocation with its free. libtorch's
/// own profiler may run at the same time; neither sees the other.
///
/// May be made and destroyed at any time, also while a profile records and other threads run ops; but libtorch reads
/// the CPU allocator without synchronisation, so best before other threads are started. Several at a time are as one.
/// Ops that are open when the last one is destroyed end as they do; what was allocated under it is then still reported
/// when freed. An op that is ended out of order, or on another thread, is shown on an async track, with self time 0; of
/// those with the same name on the same thread, the one that began last is taken to end first. Any thread.
class torch_observer {
 public:
  /// errc::unsupported when the program has had more than four CPU allocators while observers were made: there is no
  /// place for another one.
  explicit torch_observer(std::error_code& ec);
  torch_observer() {
    std::error_code ec;
    install(ec);
    detail::throw_if(ec, "torch_observer");
  }
  ~torch_observer() {
    if (is_installed_) remove();
  }
  torch_observer(const torch_observer&) = delete;
  torch_observer& operator=(const torch_observer&) = delete;

 private:
  void install(std::error_code& ec);
  static void remove();

  bool is_installed_ = false;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// What all observers share. Under the control lock.
struct torch_state {
  int count = 0;
  torch_memory memory;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  bool with_inputs = false;
};
// Never destroyed: observers may be static.
inline torch_state& the_torch() {
  static auto* const state = new torch_state;
  return *state;
}

// libtorch makes every op pay for a callback, and for its inputs when the callback wants them: there is one only while
// something is recorded, and it wants inputs only when they are.
inline void follow_gate(std::uint32_t flags) noexcept {
  torch_state& state = the_torch();
  const bool with_inputs = (flags & flag_shapes) != 0;
  const bool is_there = state.handle != at::INVALID_CALLBACK_HANDLE;
  if (is_there && (flags == 0 || with_inputs != state.with_inputs)) {
    at::removeCallback(state.handle);
    state.handle = at::INVALID_CALLBACK_HANDLE;
  }
  if (flags == 0 || state.handle != at::INVALID_CALLBACK_HANDLE) return;
  state.with_inputs = with_inputs;
  state.handle =
      at::addGlobalCallback(at::RecordFunctionCallback(&begin_torch_scope, &end_torch_scope).needsInputs(with_inputs));
}

}  // namespace detail

inline void torch_observer::install(std::error_code& ec) {
  ec.clear();
  detail::system_pin_this_module();  // libtorch keeps the addresses of our functions
  detail::torch_state& state = detail::the_torch();
  const detail::control_lock hold;
  if (state.count == 0) {
    if (!state.memory.install()) {
      ec =
          detail::make_error(errc::unsupported,
                             "torch_observer: the CPU allocator was replaced more than 4 times between observers; keep "
                             "one observer, or make it after the last c10::SetCPUAllocator");
      return;
    }
    detail::add_gate_listener(&detail::follow_gate);
  }
  ++state.count;
  is_installed_ = true;
}

inline void torch_observer::remove() {
  detail::torch_state& state = detail::the_torch();
  const detail::control_lock hold;
  if (--state.count != 0) return;
  detail::remove_gate_listener(&detail::follow_gate);
  state.memory.remove();
}

inline torch_observer::torch_observer(std::error_code& ec) {
  install(ec);
}

STEPPROF_END_NAMESPACE
