// Writes a file for speedscope with known times; speedscope.sh looks at what speedscope makes of it.
#include <stepprof/output/speedscope.hpp>

#include <support/event_builder.hpp>

int main(int, char** argv) {
  test::event_builder b("t1: step[0..1000]{ forward[100..400]{ mm[150..200] } forward[500..600] }");
  stepprof::trace_builder& builder = b.builder;
  builder.event(2).name = builder.intern("<b>mm</b></script>&\"'");
  builder.event(1).detail = builder.source(builder.intern("a.cpp"), 3);
  builder.event(3).detail = builder.source(builder.intern("a.cpp"), 3);
  builder.info().end_ns = 1000;
  builder.info().has_memory = builder.info().has_stacks = true;
  stepprof::memory_event block;
  block.bytes = 768;
  block.event = 0;
  builder.add_memory(block);
  block.bytes = 256;
  block.event = 1;
  block.time_ns = 120;
  builder.add_memory(block);
  builder.detail(0).stack = builder.intern("a.cpp(1): train();main.cpp(2): main");
  builder.detail(1).stack = builder.intern("a.cpp(3): run();a.cpp(1): train();main.cpp(2): main");
  builder.detail(3).stack = builder.intern("a.cpp(3): run();a.cpp(1): train();main.cpp(2): main");
  stepprof::export_speedscope(builder.finish(), argv[1]);
}
