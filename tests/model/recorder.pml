/* The protocol of one thread's log, beside the code that it is a model of: include/stepprof/core/log_room.hpp (the owner)
   and include/stepprof/trace/collector.hpp (the control side). One owner writes begins and ends into chunks of a small
   pool; one control side opens and closes the gate, notes how far the log is written, reads up to there, frees what it
   has read, and takes the whole log away when its thread has ended.

   What is asserted: the control side reads every record once and in order, none that was overwritten or is being
   written; an end always finds room; no chunk is freed twice or used after it was freed; in the end every begin that
   passed the gate was read, or was counted as dropped, and all memory is back in the pool.

   Every access to what both sides see is a step of its own, in the order of the program: what weaker orders of memory
   allow beyond that is left to ThreadSanitizer and to the comments at the accesses.

   Each macro below, when defined, puts a known fault in; check.sh sees that the checker finds it. */

#ifndef CHUNKS
#define CHUNKS 3 /* in the pool */
#endif
#ifndef CAPACITY
#define CAPACITY 4 /* records in a chunk */
#endif
#ifndef BEGINS
#define BEGINS 4 /* that the owner tries */
#endif
#ifndef WINDOWS
#define WINDOWS 2
#endif
#define DEPTH 2 /* scopes open inside each other: their begins and ends fit into a chunk */
#define NONE 0

/* The pool: chunk 0 is none. */
bool is_free[CHUNKS + 1];

/* Chunks. */
byte written[CHUNKS + 1];  /* `published`: final once `next` is set */
byte next[CHUNKS + 1];
byte sequence[CHUNKS + 1];
byte read_so_far[CHUNKS + 1];
byte record[(CHUNKS + 1) * CAPACITY];     /* its number, from 1 */
bool is_begin[(CHUNKS + 1) * CAPACITY];

/* The log. */
byte current;
byte published_chunk; /* `published` is one word: an address in a chunk */
byte published_bytes;
byte oldest;
byte changes;
bool held;
bool dead;
bool gate;

/* What both sides count; compared when both are done. */
byte passed;  /* begins that saw the gate open */
byte dropped; /* of them: refused, or overwritten */
byte taken_by_reader;
byte sequences;
bool owner_is_done;

inline take_from_pool(ref) {
  atomic {
    ref = NONE;
    if
    :: is_free[1] -> ref = 1
    :: !is_free[1] && is_free[2] -> ref = 2
#if CHUNKS > 2
    :: !is_free[1] && !is_free[2] && is_free[3] -> ref = 3
#endif
    :: else -> skip
    fi;
    is_free[ref] = false
  }
}

inline give_back(ref) {
  atomic {
    assert(ref != NONE && !is_free[ref]);
    is_free[ref] = true
  }
}

/* --- the owner --------------------------------------------------------------------------------------------------- */

inline init_chunk(ref) {
  d_step { sequences++; sequence[ref] = sequences }
  written[ref] = 0;
  next[ref] = NONE;
  read_so_far[ref] = 0
}

/* take_oldest_chunk */
inline take_oldest(ref) {
  ref = NONE;
#ifdef RING
  d_step { seen = oldest; seen_changes = changes; seen_held = held }
  if
#ifdef FAULT_OVERWRITES_WHAT_IS_READ
  :: seen == current -> skip
#else
  :: seen_held || seen == current -> skip
#endif
  :: else ->
    seen_next = next[seen];
    if
#ifdef FAULT_OVERWRITES_WHAT_IS_READ
    :: atomic { (oldest == seen) -> oldest = seen_next; ref = seen }
#else
    :: atomic { (oldest == seen && changes == seen_changes && !held) -> oldest = seen_next; changes++; ref = seen }
#endif
      /* count_overwritten; nobody else has the chunk now */
      d_step {
        i = read_so_far[ref];
        do
        :: i < written[ref] ->
          if :: is_begin[ref * CAPACITY + i] -> dropped++ :: else -> skip fi;
          i++
        :: else -> break
        od;
        i = 0
      }
    :: else -> skip /* the control side was faster */
    fi
  fi
#endif
}

inline enter_chunk(ref) {
  init_chunk(ref);
  written[current] = mine;
  d_step { published_chunk = ref; published_bytes = 0; mine = 0 } /* one store */
  next[current] = ref;
  current = ref
}

inline write(begins) {
  d_step {
    assert(mine < CAPACITY);
    assert(!is_free[current]);
    records++;
    record[current * CAPACITY + mine] = records;
    is_begin[current * CAPACITY + mine] = begins
  }
  d_step { mine++; published_bytes = mine } /* one store */
}

proctype owner() {
  byte depth = 0, tries = 0, mine = 0, records = 0, ref = NONE, i = 0;
  byte seen = 0, seen_next = 0, seen_changes = 0;
  bool seen_held = false, has_passed;
  do
  :: tries < BEGINS && depth < DEPTH ->
    tries++;
    atomic { has_passed = gate; if :: has_passed -> passed++ :: else -> skip fi }
    if
    :: has_passed ->
      /* make_room: its own place, and one for each end that will come */
#ifdef FAULT_NO_ROOM_FOR_THE_END
      if
      :: mine + 1 <= CAPACITY -> write(true); depth++
#else
      if
      :: mine + depth + 2 <= CAPACITY -> write(true); depth++
#endif
      :: else ->
        take_from_pool(ref);
        if
        :: ref == NONE -> take_oldest(ref)
        :: else -> skip
        fi;
        if
        :: ref != NONE -> enter_chunk(ref); write(true); depth++
        :: else -> d_step { dropped++ }
        fi
      fi
    :: else -> skip
    fi
  :: depth > 0 ->
    write(false);
    depth--
  :: tries == BEGINS && depth == 0 -> break
  od;
  written[current] = mine;
  dead = true;
  owner_is_done = true
}

/* --- the control side -------------------------------------------------------------------------------------------- */

/* collector::note and collector::read */
inline read_window() {
  gate = false;
#ifndef FAULT_DOES_NOT_HOLD
  atomic { held = true }
#endif
  until_dead = dead;
  until = current;
  d_step { /* published_bytes(log, current): one load */
    if
    :: published_chunk == until -> until_bytes = published_bytes
    :: else -> until_bytes = 255
    fi
  }
  if
  :: until_bytes == 255 -> until_bytes = written[until] /* its owner has moved on */
  :: else -> skip
  fi;
  if :: last_window -> skip :: else -> gate = true fi;
  /* reader_of: where was it? */
  if
#ifdef FAULT_TELLS_CHUNKS_BY_NUMBER
  :: at != oldest ->
#else
  :: at_sequence != sequence[oldest] ->
#endif
    at = oldest; at_sequence = sequence[oldest]; bytes = 0; gap = true
  :: else -> skip
  fi;
  do
  :: true ->
    link = NONE;
    if :: at != until -> link = next[at] :: else -> skip fi;
    if :: link == NONE -> end = until_bytes :: else -> end = written[at] fi;
    do
    :: bytes < end ->
      d_step {
        assert(!is_free[at]);
        assert(record[at * CAPACITY + bytes] > last);
        assert(gap || record[at * CAPACITY + bytes] == last + 1);
        gap = false;
        last = record[at * CAPACITY + bytes];
        if :: is_begin[at * CAPACITY + bytes] -> taken_by_reader++ :: else -> skip fi
      }
      bytes++
    :: else -> break
    od;
    if
    :: link == NONE -> break
    :: else ->
#ifdef FAULT_FOLLOWS_A_LINK_OF_A_FREED_CHUNK
      give_back(at);
      link = next[at];
      d_step { oldest = link; changes++ }
#else
      d_step { oldest = link; changes++ } /* move_oldest */
      give_back(at);
#endif
      at = link;
      at_sequence = sequence[at];
      bytes = 0
    fi
  od;
#ifdef FAULT_TAKES_THE_CURRENT_CHUNK
  if :: bytes == CAPACITY && !is_free[at] -> give_back(at) :: else -> skip fi;
#endif
  read_so_far[oldest] = bytes;
  atomic { changes++; held = false } /* let_log_go */
}

proctype control() {
  byte at = 1, at_sequence = 1, bytes = 0, last = 0;
  byte until, until_bytes, link, end, windows = 0;
  bool until_dead, gap = false, last_window = false;
  gate = true;
  do
  :: windows < WINDOWS -> windows++; read_window()
  :: windows == WINDOWS -> break
  od;
  owner_is_done -> last_window = true;
  read_window();
  /* retire */
  assert(until_dead);
  give_back(at);
  assert(taken_by_reader + dropped == passed);
  for (at : 1 .. CHUNKS) {
    assert(is_free[at])
  }
}

init {
  atomic {
    byte c;
    for (c : 2 .. CHUNKS) { is_free[c] = true }
    sequences = 1;
    sequence[1] = 1;
    current = 1;
    oldest = 1;
    published_chunk = 1;
    run owner();
    run control()
  }
}
