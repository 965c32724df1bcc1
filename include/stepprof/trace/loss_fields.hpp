// Every count of loss_counts under the name that files have for it.
#pragma once

#include <cstdint>

#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

struct loss_field {
  const char* key;
  std::uint64_t loss_counts::*count;
};

inline constexpr loss_field loss_fields[] = {
    {"kept", &loss_counts::kept},
    {"unfinished", &loss_counts::unfinished},
    {"late", &loss_counts::late},
    {"dropped", &loss_counts::dropped},
    {"reentrant", &loss_counts::reentrant},
    {"overwritten", &loss_counts::overwritten},
    {"dropped_arguments", &loss_counts::dropped_arguments},
    {"dropped_memory", &loss_counts::dropped_memory},
    {"overflow_names", &loss_counts::overflow_names},
    {"clamps", &loss_counts::clamps},
    {"unmatched_frees", &loss_counts::unmatched_frees},
    {"unmatched_ends", &loss_counts::unmatched_ends},
    {"overwritten_ends", &loss_counts::overwritten_ends},
    {"lost_frees", &loss_counts::lost_frees},
    {"late_frees", &loss_counts::late_frees},
    {"cold_chunks", &loss_counts::cold_chunks},
};
static_assert(sizeof(loss_fields) / sizeof(loss_fields[0]) * sizeof(std::uint64_t) == sizeof(loss_counts),
              "every count has a name");

inline void add_losses(loss_counts& to, const loss_counts& more) noexcept {
  for (const auto& [key, field] : loss_fields) to.*field = saturating_add(to.*field, more.*field);
}

}  // namespace detail
STEPPROF_END_NAMESPACE
