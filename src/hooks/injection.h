/*
 * Putting the agent into a process, and taking it out again: the process that has parsed the
 * program plans it here; the surgeon (inject/surgeon.h), a separate process except in tests, has
 * the privilege, parses nothing, and carries it out.
 *
 * In: one thread of the target, which is stopped for less than 1 ms, prepares everything while the
 * others run. Then all threads are stopped, once, and the jumps are written. They replace whole
 * instructions, so no thread can be inside one. If a step fails, the earlier ones are undone, in
 * reverse order.
 *
 * Out: all threads are stopped for the code to be restored. When no thread is in the agent any
 * more, the memory is unmapped, except the code page (inject/code_page.h).
 *
 * Gospect may be killed at any time: the hooks written so far work without it, and the next gospect
 * removes them.
 */
#ifndef HOOKS_INJECTION_H
#define HOOKS_INJECTION_H

#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/target.h"

struct pause;
struct surgeon_line;

struct inject_options {
	uint32_t depth;      /* frames of a stack; 0: none */
	uint32_t ring_bytes; /* of each slot; a power of two, at least four chunks */
	/* More functions whose calls are recorded, besides those of hooks/entry_points.h; or NULL.
	 */
	const regex_t *root;
	/* Nothing of a request is read (hooks/request_functions.h), and no call of a client
	 * recorded. */
	bool no_names;
	bool allocations; /* those that the heap profile samples are recorded, too */
	/* Leads to the surgeon in its own process; NULL: there is one in ours. */
	const struct surgeon_line *surgeon;
	/* When it is not 0, inject_attach() ends early: ERROR_STOPPED. NULL: it cannot. */
	const volatile sig_atomic_t *stop;
};

struct injection;

/* About how long attaching and detaching will stop all threads, each, as the surgeon says. */
struct error *inject_expected_pause(const struct surgeon_line *surgeon,
				    struct pause *ret) must_check;

/*
 * The agent runs when this returns. ERROR_UNSUPPORTED, ERROR_DENIED, ERROR_GONE, ERROR_STOPPED or
 * ERROR_FAILED:
 * nothing is left in the target. Keeps t, img and lay.
 */
struct error *inject_attach(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct inject_options *options,
			    struct injection **ret) must_check;

/*
 * The memory that the agent writes to, mapped here too; it stays until inject_destroy(), whatever
 * becomes of the target. Its layout is as we made it; its contents may be anything.
 */
struct agent_shared *inject_shared(const struct injection *in);
/* Which parts of its layout are trusted. */
const struct agent_shared *inject_layout(const struct injection *in);
/* Copies a part of it. What the target never wrote is zeros, and takes no memory. */
void inject_read(const struct injection *in, uint64_t offset, void *ret, size_t size);
/* Makes a part of it present, here and in the target, before that touches it: which would wait for
 * the kernel at each page, and be charged for it. */
void inject_populate(const struct injection *in, uint64_t offset, uint64_t size);
/* Lets the agent read the memory that Go's heap has gained since, for labels
 * (agent/agent_labels.h). */
struct error *inject_update_readable(struct injection *in) must_check;
/* A line for each function that the user named but that cannot be hooked, and why. */
const struct strbuf *inject_left_out(const struct injection *in);
/* Calls that found no slot, so far. */
uint64_t inject_lost(const struct injection *in);

/*
 * A sign of life: to be given every second at least, by any thread. An agent that does not hear it
 * for some seconds switches itself off. Then this switches it on again and is true: what happened
 * in between is not known.
 */
bool inject_beat(struct injection *in);

/* The number of Ps that have no ring of their own, at the end: the program has more than at the
 * attach, or than the limit. They share AGENT_FALLBACK_SLOTS; events that find none free are lost.
 */
uint64_t inject_without_ring(const struct injection *in);

/* When the first record could be written (CLOCK_MONOTONIC). */
uint64_t inject_attached_at(const struct injection *in);

/* How long all threads were stopped at once: to attach, and to detach (the longest). */
uint64_t inject_attach_ns(const struct injection *in);
uint64_t inject_detach_ns(const struct injection *in);

/* Takes the agent out; a target that has ended is no error. Does nothing the second time. */
struct error *inject_detach(struct injection *in) must_check;
/* Detaches if that was not done. */
void inject_destroy(struct injection *in);

/*
 * Removes the agent of a killed gospect; *ret_found: there was something to restore, unmap or
 * close. ERROR_DENIED: that gospect still runs.
 */
struct error *inject_clean(struct target *t, const struct image *img, const struct golayout *lay,
			   const struct surgeon_line *surgeon, bool *ret_found) must_check;

static inline void cleanup_injection(struct injection **in)
{
	inject_destroy(*in);
}
#define _cleanup_injection_ __attribute__((cleanup(cleanup_injection)))

#endif
