// The texts of the log's name ids.
#pragma once

#include <cstdint>
#include <vector>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Looks each id up once. Ids are places in three tables, so arrays that grow as needed find them again.
class name_resolver {
 public:
  // A name in the trace. Those of call sites have an entry of details(), which says where they stand.
  struct name {
    std::uint32_t text = npos;
    std::uint32_t detail = npos;
  };

  explicit name_resolver(trace_builder& builder) : builder_(builder) {}
  // Valid until the next look-up.
  const name& of(std::uint32_t id) {
    std::vector<name>& names = known_[(id & ~place_mask & id_mask) / (place_mask + 1)];
    const std::uint32_t place = id & place_mask;
    if (place >= names.size()) names.resize(place + std::size_t{1});
    name& known = names[place];
    if (known.text == npos) known = resolve(id);
    return known;
  }
  std::uint32_t operator()(std::uint32_t id) { return of(id).text; }

 private:
  name resolve(std::uint32_t id) {
    if (id == overflow_name) return {builder_.intern("(names overflow)"), npos};
    const name_table& table =
        (id & runtime_name_bit) == 0 ? the_names.sites : the_names.runtime[(id & runtime_table_bit) != 0 ? 1 : 0];
    const name_table::node* const node = table.find(id & place_mask);
    if (node == nullptr) return {builder_.intern("(unknown name)"), npos};
    name result;
    result.text = builder_.intern({node->text(), node->size});
    if (node->file_size != 0)
      result.detail = builder_.source(builder_.intern({node->text() + node->size, node->file_size}), node->line);
    return result;
  }

  trace_builder& builder_;
  std::vector<name> known_[4];  // by the two bits that tell the table
};

}  // namespace detail

STEPPROF_END_NAMESPACE
