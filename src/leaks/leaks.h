/*
 * Goroutines that nothing can wake any more, by the algorithm of Go 1.27's own leak profile
 * (runtime/mgc.go: findGoroutineLeaks), for all versions and without a collection.
 *
 * Roots are global variables, finalizers, and the stacks of goroutines that run or wait for
 * something outside: the network, a timer, a system call. A goroutine that waits for a channel or
 * for an object of package sync is no root until that object is reachable; then its stack is one.
 * When nothing is added any more, the goroutines that are left wait for objects that no other
 * goroutine can ever reach.
 *
 * A live process changes while it is read: a pointer may move from memory that is not yet read to
 * memory that was. So a goroutine counts as leaked if several looks at the whole heap agree, and it
 * did not run from the first to the last. What is unreachable stays so, hence only a pointer that
 * is in flight during every look could deceive. The registers of a running goroutine are not known;
 * if one runs at every look, the result is a suspicion and no proof. A core file is one moment, and
 * has the registers.
 */
#ifndef LEAKS_LEAKS_H
#define LEAKS_LEAKS_H

#include "heapgraph/heap_marks.h"
#include "waits/wait_graph.h"

struct leak_group {
	struct wait_place created_by; /* the go statement */
	struct wait_place place;      /* where they wait */
	enum wait_kind kind;
	enum wait_side side;
	bool is_nil; /* the nil channel, or a select without channels */
	bool is_select;
	bool is_certain;
	bool is_young; /* a suspect only if it grows: none has waited for a minute */
	const char *why;
	uint32_t *goroutines; /* in waits->goroutines */
	size_t count;
	size_t recent;   /* of them: that began to wait in the last minute */
	uint64_t oldest; /* ns; 0: not known */
	uint64_t youngest;
	/* Bytes of objects that nothing but these goroutines leads to, not even other leaked ones,
	 * and of their stacks. 0: something else leads to what they wait for. */
	uint64_t retained;
	int64_t growth; /* goroutines more than at an earlier time: leaks_compare() */
};

struct leaks_options {
	const atomic_int *stop; /* ERROR_STOPPED once it is not 0; NULL: never */
};

struct leaks {
	struct wait_graph *waits;
	struct leak_group *groups; /* certain ones first, then most bytes first */
	size_t group_count;
	size_t young_count; /* of further groups, behind these, that are not shown */
	size_t certain;     /* goroutines */
	size_t suspected;   /* goroutines */
	size_t looks;
	uint64_t retained; /* bytes: of all leaked groups together */
	uint64_t heap_bytes;
	uint64_t reachable_bytes;
	uint64_t unread;      /* bytes that could not be read, of a core file */
	uint64_t runs;        /* a goroutine that ran at every look; 0: none */
	uint32_t *members;    /* of all groups */
	uint64_t compared_ns; /* the time since the earlier one; 0: there is none */
};

struct error *leaks_find(struct target *t, const struct image *img, const struct golayout *lay,
			 const struct leaks_options *options, struct leaks **ret) must_check;
void leaks_destroy(struct leaks *l);

/* Notes how much each group of `later` has grown since `earlier`, of the same process. Young groups
 * that only grow become suspects. */
void leaks_compare(struct leaks *later, const struct leaks *earlier);

void leaks_write_text(const struct leaks *l, FILE *out);
void leaks_write_json(const struct leaks *l, FILE *out);

static inline void cleanup_leaks(struct leaks **l)
{
	leaks_destroy(*l);
}
#define _cleanup_leaks_ __attribute__((cleanup(cleanup_leaks)))

#endif
