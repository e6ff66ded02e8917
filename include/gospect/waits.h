/* Who waits for whom, at one moment. */
#ifndef GOSPECT_WAITS_H
#define GOSPECT_WAITS_H

#include <gospect/snapshot.h>

GOSPECT_BEGIN

struct gospect_waits_options {
	size_t size;       /* of this structure */
	uint32_t system;   /* 1: the runtime's own goroutines too */
	uint32_t reserved; /* 0 */
};

struct gospect_waits;

/*
 * Reads what each goroutine waits for, and who holds it: locks, channels, WaitGroups, conditions,
 * the network, timers. The target runs on and is not changed. Holders of locks are proved by the
 * code of their functions; otherwise they are candidates. Objects have names if the program has
 * symbols and DWARF.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_waits_take(struct gospect_target *target, const struct gospect_waits_options *options,
		   struct gospect_waits **ret);

/* Before the target is closed. Takes NULL as well. */
GOSPECT_API void gospect_waits_destroy(struct gospect_waits *waits);

struct gospect_waits_info {
	uint64_t goroutines; /* goroutines that gospect read */
	uint64_t waiting;    /* of them */
	uint64_t objects;    /* that they wait for */
	uint64_t deadlocks;  /* cycles of proved holders */
	uint64_t suspicions; /* cycles in which some holders are candidates */
	uint64_t moved;   /* goroutines that are left out, because they ran while they were read */
	uint64_t unknown; /* goroutines whose object is not known */
	uint32_t is_cut;  /* 1: there is more than gospect's limits permit */
	uint32_t reserved;
};

/* Valid until it is destroyed. */
GOSPECT_API const struct gospect_waits_info *gospect_waits_info(const struct gospect_waits *waits);

/* GOSPECT_TEXT, GOSPECT_JSON (its keys are in gospect-waits(1)), or GOSPECT_DOT. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_waits_write(const struct gospect_waits *waits, enum gospect_format format,
		    struct gospect_sink sink);

GOSPECT_END

#endif
