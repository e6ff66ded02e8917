/* For the files of this directory only. */
#ifndef WAITS_ROOM_H
#define WAITS_ROOM_H

#include "unwind/frames.h"
#include "waits/wait_graph.h"

/* Limits of what is kept of one target, which may claim any number of anything. */
#define WAITS_MAX_CASES 65536u /* of a select: the runtime's own limit */
#define WAITS_MAX_EDGES (1u << 22)
#define WAITS_MAX_HOLDERS 64       /* of an object */
#define WAITS_MAX_FRAMES 64        /* of a stack that are searched for locks */
#define WAITS_MAX_STACK (1u << 20) /* bytes of a stack */

/* The name of the function is one of this package; "runtime" covers "runtime.gopark". */
bool wait_is_package(const char *function, const char *package);

/* The innermost frame outside the runtime and the packages that wait on behalf of others. */
struct wait_place wait_place_of(const struct wait_graph *w, uint32_t stack);

/* A copy of a text that lives as long as w; NULL: no memory. */
const char *wait_keep(struct wait_graph *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Finds what the goroutines with `changed` wait for, and clears `changed`. */
struct error *wait_graph_find(struct wait_graph *w) must_check;

/* Makes objects of the edges, and reads them. */
struct error *wait_graph_group(struct wait_graph *w) must_check;

/* The memory of a goroutine's stack, and its frames. */
struct wait_stack {
	uint8_t *bytes; /* from `sp` upwards */
	uint64_t sp;
	size_t size;
	struct frames frames;
};

/* False: it cannot be read. At most `limit` bytes are read. */
struct error *wait_stack_read(const struct wait_graph *w, const struct wait_goroutine *g,
			      size_t limit, struct wait_stack *ret, bool *ret_ok) must_check;
void wait_stack_release(struct wait_stack *s);
#define _cleanup_wait_stack_ __attribute__((cleanup(wait_stack_release)))
/* The word of the stack at this address; false: it is not in the copy. */
bool wait_stack_word(const struct wait_stack *s, uint64_t address, uint64_t *ret);

/* Finds the holders of the objects. */
struct error *wait_graph_find_holders(struct wait_graph *w) must_check;

/* Finds the cycles. In a live process, `confirm` checks again that the goroutines did not run. */
struct error *wait_graph_find_cycles(struct wait_graph *w) must_check;
/* Drops cycles of goroutines that have changed. */
void wait_graph_confirm_cycles(struct wait_graph *w);

/* Finds the addresses of connections. */
struct error *wait_graph_find_sockets(struct wait_graph *w) must_check;

/* Names the objects. */
struct error *wait_graph_name(struct wait_graph *w) must_check;

#endif
