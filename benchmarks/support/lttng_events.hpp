// The pair of LTTng-UST tracepoints that peer_cost hits. Read several times by lttng/tracepoint-event.h, which makes of
// it what the macros declare. Without fields, because nothing costs LTTng less.
#pragma GCC system_header  // what the macros expand to is not written with our warnings on
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER stepprof_peer

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "support/lttng_events.hpp"

#if !defined(STEPPROF_BENCHMARK_LTTNG_EVENTS) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define STEPPROF_BENCHMARK_LTTNG_EVENTS

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(stepprof_peer, begin, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(stepprof_peer, end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
