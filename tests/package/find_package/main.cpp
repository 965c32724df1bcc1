#include <nlohmann/json.hpp>
#include <stepprof/trace/trace_builder.hpp>

int main() {
  stepprof::trace_builder builder;
  builder.add_metadata("made by", nlohmann::json("a consumer").dump());
  return builder.finish().metadata().size() == 1 ? 0 : 1;
}
