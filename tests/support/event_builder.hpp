// Hand-built traces for tests: events("t1: f[0..10]{ f[2..6] } g[10..12]; t2: h[0..3]").
#pragma once

#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <stepprof/trace/trace_builder.hpp>

namespace test {

// Grammar: tracks separated by ';', each "t<id>:" followed by events "name[begin..end]" in ns, children in braces.
// A name may end in '!' (user annotation), '~' (backward op); the mark is not part of the name. 'async<id>:' opens an
// async track. The process is pid 7, "test".
class event_builder {
 public:
  explicit event_builder(const std::string& text) : text_(text) {
    builder.add_process({});
    builder.process(0).pid = 7;
    builder.process(0).name = "test";
    while (skip_space(), at_ < text_.size()) parse_track();
  }

  stepprof::trace_builder builder;

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      throw std::runtime_error("event_builder: expected '" + std::string(1, c) + "' at " + text_.substr(at_));
  }
  std::int64_t number() {
    skip_space();
    std::size_t used = 0;
    const long long value = std::stoll(text_.substr(at_), &used);
    at_ += used;
    return value;
  }
  void parse_track() {
    stepprof::trace_track track;
    if (text_.compare(at_, 5, "async") == 0) {
      track.kind = stepprof::track_kind::async;
      at_ += 5;
    } else {
      expect('t');
    }
    track.id = static_cast<std::uint32_t>(number());
    expect(':');
    builder.add_track(track);
    while (skip_space(), at_ < text_.size() && !take(';')) parse_event(stepprof::npos);
  }
  void parse_event(std::uint32_t parent) {
    std::string name = text_.substr(at_, text_.find('[', at_) - at_);
    at_ += name.size();
    stepprof::trace_event e;
    if (!name.empty() && (name.back() == '!' || name.back() == '~')) {
      e.set_kind(name.back() == '!' ? stepprof::scope_kind::user_annotation : stepprof::scope_kind::backward_op);
      name.pop_back();
    }
    expect('[');
    e.name = builder.intern(name);
    e.parent = parent;
    e.begin_ns = number();
    at_ += 2;
    e.end_ns = number();
    expect(']');
    const std::uint32_t index = builder.add_event(e);
    if (!take('{')) return;
    while (!take('}')) parse_event(index);
  }

  std::string text_;
  std::size_t at_ = 0;
};

inline stepprof::trace events(const std::string& text) {
  event_builder b(text);
  std::int64_t end = 0;
  for (std::uint32_t i = 0; i < b.builder.event_count(); ++i)
    end = b.builder.event(i).end_ns > end ? b.builder.event(i).end_ns : end;
  b.builder.info().end_ns = end;
  return b.builder.finish();
}

}  // namespace test
