/*
 * The state of every goroutine when tracing began. It is read while the program runs, which takes a
 * while. A goroutine that has an event meanwhile was in the state from which that event leads; the
 * others were in the state that was read.
 */
#ifndef COLLECT_STATES_AT_START_H
#define COLLECT_STATES_AT_START_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/error.h"
#include "base/map.h"
#include "collect/target_labels.h"
#include "collect/trace_events.h"
#include "golayout/golayout.h"
#include "gotrace/event.h"
#include "target/target.h"

struct snapshot_goroutine {
	uint64_t goid;
	uint64_t start_pc;
	uint64_t m; /* its thread, when it runs or is in a system call; TRACE_NO_M */
	uint32_t p;
	enum trace_status status;
	uint64_t address; /* of its g */
	uint64_t labels;  /* g.labels */
	uint32_t text;    /* of these, once snapshot_read_labels() was called; 0: none */
	/* Once its stack was read (collect/stacks_at_start.h); stood_ns 0: it was not. */
	uint32_t stack;
	uint32_t reason;    /* a text; 0: none */
	uint64_t waited_ns; /* before tracing began, at least; 0: not known */
	uint64_t stood_ns;  /* of the trace, up to which it is known to have stood there */
};

struct snapshot {
	struct snapshot_goroutine *items;
	size_t count;
	size_t capacity;
	size_t labelled; /* items whose labels have been read */
};

/* Reads for about `most_ns` at most: the first event of a goroutine that is left out implies its
 * state. */
struct error *snapshot_read(struct target *t, const struct golayout *lay, uint64_t most_ns,
			    struct snapshot *ret) must_check;
/* Reads the labels of those that have them still, for about so long; call it until *ret_done. */
struct error *snapshot_read_labels(struct snapshot *s, struct labels *labels, uint64_t ns,
				   bool *ret_done) must_check;
/* Those that were not read count as not known. */
void snapshot_forgo_labels(struct snapshot *s, struct labels *labels);
void snapshot_release(struct snapshot *s);

/* The states at the beginning, as events, given the first events behind it. */
struct error *snapshot_events(const struct snapshot *s, const struct trace_events *first,
			      struct trace_events *ret) must_check;

#endif
