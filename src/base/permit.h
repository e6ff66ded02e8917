/*
 * Side effects on the whole process that reads a target, or on the calling thread. The rooms may be
 * used by a process that is not gospect's own (include/gospect/gospect.h), so they have such an
 * effect only where it is permitted. Nothing is permitted at first. For any thread.
 */
#ifndef BASE_PERMIT_H
#define BASE_PERMIT_H

#include <stdbool.h>
#include <stdint.h>

enum permit {
	PERMIT_LIMITS = 1,   /* raises RLIMIT_NOFILE, RLIMIT_MEMLOCK */
	PERMIT_PRIORITY = 2, /* gives the calling thread a real-time priority for a while */
	PERMIT_MAPPING = 4,  /* maps files; SIGBUS is handled by mapped_file_repair() */
	PERMIT_ALL = 7,
};

/* Permits these and no others from now on. */
void permit_only(uint32_t permits);
bool permitted(enum permit what);

#endif
