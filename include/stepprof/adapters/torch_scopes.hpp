// libtorch's ops, autograd nodes and user scopes as scopes: the two callbacks that it runs around each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include <ATen/record_function.h>

#include <stepprof/adapters/torch_inputs.hpp>
#include <stepprof/adapters/torch_names.hpp>
#include <stepprof/adapters/torch_threads.hpp>
#include <stepprof/record/record_function.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Frees what a thread has when it ends. Ops that run even later take and free memory of their own.
struct torch_thread_end {
  ~torch_thread_end() {
    torch_thread& mine = this_torch_thread;
    mine.ended = true;
    delete mine.names;
    mine.names = nullptr;
    while (mine.spare != nullptr) {
      void* const block = mine.spare;
      mine.spare = *static_cast<void**>(block);
      ::operator delete(block);
    }
  }
  static void arm(torch_thread& mine) noexcept {
    static thread_local const torch_thread_end hook;
    static_cast<void>(&hook);
    mine.is_freed_at_end = true;
  }
};

// What the end of an op needs to know of its begin. libtorch keeps it with the op, so ends find their begin also out of
// order, on other threads and when the callbacks are gone. A thread uses its own again: no allocation on the hot path.
class torch_scope final : public at::ObserverContext {
 public:
  static constexpr std::uint32_t most_spare = 64;  // ops open inside each other on a thread

  std::uint64_t thread = 0;  // whose log holds the begin << 32
  std::uint32_t end_what = 0;

  static void* operator new(std::size_t bytes) {
    torch_thread& mine = this_torch_thread;
    if (mine.spare == nullptr) return ::operator new(bytes);
    void* const block = mine.spare;
    mine.spare = *static_cast<void**>(block);
    --mine.spare_count;
    return block;
  }
  static void operator delete(void* block) noexcept {
    torch_thread& mine = this_torch_thread;
    if (mine.ended || mine.spare_count == most_spare) return ::operator delete(block);
    if (!mine.is_freed_at_end) torch_thread_end::arm(mine);
    *static_cast<void**>(block) = mine.spare;
    mine.spare = block;
    ++mine.spare_count;
  }
};

inline std::uint32_t torch_name_id(torch_thread& mine, const char* name, std::size_t size, const cold_table& cold,
                                   std::uint32_t flags) noexcept {
  if ((flags & flag_stacks) != 0) return cold.intern(name, size);  // which captures the stack
  if (mine.names == nullptr && !mine.ended) {
    if (!mine.is_freed_at_end) torch_thread_end::arm(mine);
    mine.names = new (std::nothrow) torch_name_cache;
  }
  return mine.names != nullptr ? mine.names->id_of(name, size, cold) : cold.intern(name, size);
}

inline scope_kind kind_of_torch(at::RecordScope scope) noexcept {
  if (scope == at::RecordScope::USER_SCOPE) return scope_kind::user_annotation;
  return scope == at::RecordScope::BACKWARD_FUNCTION ? scope_kind::backward_op : scope_kind::op;
}

// Whether the name is that of the engine's wrapper around the execution of a node.
inline bool is_torch_wrapper(const char* name, std::size_t size) noexcept {
  constexpr char prefix[] = "autograd::engine::evaluate_function: ";
  constexpr std::size_t length = sizeof prefix - 1;
  return size > length && name[1] == 'u' && std::memcmp(name, prefix, length) == 0;
}

// RecordFunction::inputs() asks, where NDEBUG is not defined, for a mark that a libtorch built with NDEBUG never sets:
// in the debug build of a program it only throws. An explicit instantiation may name the member behind it.
template <auto Member>
struct torch_inputs_access {
  friend c10::ArrayRef<const c10::IValue> inputs_of_torch(const at::RecordFunction& op) { return op.*Member; }
};
c10::ArrayRef<const c10::IValue> inputs_of_torch(const at::RecordFunction& op);
template struct torch_inputs_access<&at::RecordFunction::inputs_>;

// The thread and the number of the op that made this node.
inline forward_link forward_of(const at::RecordFunction& node) noexcept {
  return {torch_threads.find(node.forwardThreadId()), node.seqNr()};
}

// The number of the scope that has just begun, which is the innermost one.
inline void write_torch_number(const at::RecordFunction& op, scope_kind kind, std::uint64_t thread) {
  if (op.seqNr() < 0) return;  // also the largest unsigned number, which nodes that accumulate gradients have
  if (kind == scope_kind::backward_op) return write_link(forward_of(op));
  torch_threads.set(this_torch_thread_id(), static_cast<std::uint32_t>(thread >> 32));
  write_sequence(op.seqNr());
}

inline std::unique_ptr<at::ObserverContext> begin_torch_scope(const at::RecordFunction& op) {
  torch_thread& mine = this_torch_thread;
  const bool is_wrapped = mine.wrapper_begins;
  mine.wrapper_begins = false;
  const std::uint32_t flags = the_registry.gate.load(std::memory_order_relaxed);
  const cold_table* const cold = cold_paths();
  if (flags == 0 || cold == nullptr) return nullptr;

  auto scope = std::make_unique<torch_scope>();  // first: it may throw
  const scope_kind kind = kind_of_torch(op.scope());
  // The wrapper is still the innermost scope: it gets the number of the node that it executes, but no arrow.
  if (is_wrapped && kind == scope_kind::backward_op && op.seqNr() >= 0) write_link(forward_of(op));

  const char* const name = op.name();
  const std::size_t size = std::strlen(name);
  const std::uint32_t id = torch_name_id(mine, name, size, *cold, flags);
  scope->thread = begin_scope<product_clock>(what_of(tag::begin_user, id) + kind_offset(kind));
  if (scope->thread == 0) return nullptr;  // refused and counted
  scope->end_what = what_of(tag::end, id);
  mine.wrapper_begins = is_torch_wrapper(name, size);
  write_torch_number(op, kind, scope->thread);
  if ((flags & flag_shapes) != 0 && !inputs_of_torch(op).empty()) write_torch_inputs(inputs_of_torch(op));
  return scope;
}

inline void end_torch_scope(const at::RecordFunction&, at::ObserverContext* context) {
  this_torch_thread.wrapper_begins = false;
  if (context == nullptr) return;
  const auto& scope = static_cast<const torch_scope&>(*context);
  end_scope<product_clock>(scope.thread, scope.end_what);
}

}  // namespace detail
STEPPROF_END_NAMESPACE
