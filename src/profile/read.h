/*
 * Reads profiles from pprof files: those of gospect, and others whose samples have a count, and a
 * time or bytes (Go's CPU, heap, goroutine, mutex and block profiles, and fgprof's).
 */
#ifndef PROFILE_READ_H
#define PROFILE_READ_H

#include <stdatomic.h>

#include "profile/profile.h"

struct profile_file {
	struct profile *profile;
	struct profile_symbols *symbols;
	bool raw; /* addresses only: nothing in it has a function */
};

/* gzip or plain. Every byte is treated as hostile; ERROR_CORRUPT says what is wrong. ERROR_STOPPED
 * when *cancel is not 0; `cancel` may be NULL. */
struct error *profile_read(const void *bytes, size_t size, const atomic_int *cancel,
			   struct profile_file *ret) must_check;
void profile_file_release(struct profile_file *file);
#define _cleanup_profile_file_ __attribute__((cleanup(profile_file_release)))

#endif
