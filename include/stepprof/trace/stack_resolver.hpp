// The native stacks of a trace, from the log's ids of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Looks each id up once.
class stack_resolver {
 public:
  explicit stack_resolver(trace_builder& builder) : builder_(builder) {}

  // Gives an event the stack with this id.
  void add(std::uint32_t event, std::uint32_t id) {
    const auto [found, is_new] = stacks_.try_emplace(id);
    if (is_new) found->second = resolve(id);
    if (found->second.index == npos) {
      ++missing_;
      return;
    }
    if (found->second.is_cut) ++cut_;
    builder_.set_native_stack(event, found->second.index);
  }
  // Events whose stack had no room, and events with more frames than were kept.
  [[nodiscard]] std::uint64_t missing() const noexcept { return missing_; }
  [[nodiscard]] std::uint64_t cut() const noexcept { return cut_; }

 private:
  struct resolved {
    std::uint32_t index = npos;
    bool is_cut = false;
  };

  resolved resolve(std::uint32_t id) {
    if (id == overflow_name || (id & runtime_name_bit) == 0) return {};
    const name_table& table = the_names.runtime[(id & runtime_table_bit) != 0 ? 1 : 0];
    const name_table::node* const node = table.find(id & place_mask);
    if (node == nullptr || node->file_size == 0) return {};
    const bool is_cut = (node->line & cut_stack_bit) != 0;
    const resolved result{builder_.add_native_stack(is_cut), is_cut};
    const std::uint32_t count = node->file_size / sizeof(std::uint32_t);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uintptr_t address;
      std::uint32_t place;
      std::memcpy(&address, node->text() + i * sizeof address, sizeof address);
      std::memcpy(&place, node->text() + node->size + i * sizeof place, sizeof place);
      builder_.add_native_frame({address, module_at(table, id, place)});
    }
    return result;
  }
  std::uint32_t module_at(const name_table& table, std::uint32_t id, std::uint32_t place) {
    const name_table::node* const node = place == 0 ? nullptr : table.find(place);
    if (node == nullptr || node->size < sizeof(loaded_module)) return npos;
    const auto [found, is_new] = modules_.try_emplace((id & runtime_table_bit) | place, npos);
    if (!is_new) return found->second;
    loaded_module m;
    std::memcpy(&m, node->text(), sizeof m);
    native_module module;
    module.path.assign(node->text() + sizeof m, node->size - sizeof m);
    module.build_id.assign(reinterpret_cast<const char*>(m.id), m.id_bytes);
    module.begin = m.begin;
    module.end = m.end;
    module.bias = m.bias;
    return found->second = builder_.add_native_module(std::move(module));
  }

  trace_builder& builder_;
  std::unordered_map<std::uint32_t, resolved> stacks_;
  std::unordered_map<std::uint32_t, std::uint32_t> modules_;  // by place in its table, and which table
  std::uint64_t missing_ = 0;
  std::uint64_t cut_ = 0;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
