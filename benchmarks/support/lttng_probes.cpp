// What LTTng's macros make of the tracepoints of peer_cost. A source of its own: it is not compiled with our warnings.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "support/lttng_events.hpp"
