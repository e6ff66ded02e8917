/*
 * The findings of a profile, as sentences. They are about waits of requests, locks, waits at
 * regular intervals, growth, CPU, the garbage collector, crowds of goroutines and system calls. A
 * finding needs to exceed a threshold; the most serious comes first. Facts about any profile
 * follow: the share that waits for work and its loops, the number of goroutines, the longest wait,
 * the largest share. If these are fewer than three, the shares of states, of functions on a CPU and
 * of wait reasons follow. Each sentence has the view of the profile that shows it.
 */
#ifndef PROFILE_STANDS_OUT_H
#define PROFILE_STANDS_OUT_H

#include "profile/profile.h"

#define MAX_SENTENCES 5
#define MIN_SENTENCES 3
/* One place is left for the share that waits for work. */
#define MAX_GRAVE (MAX_SENTENCES - 1)

struct sentence {
	char *text;  /* without a full stop */
	char *focus; /* a regular expression: only stacks with a function that matches; "" for all
		      */
	const char *kind; /* "running", "runnable", "syscall", or "" for all */
	const char *wait; /* the only wait reason, in the profile's strings; or NULL */
	bool idle;        /* includes idle goroutines */
};

struct stands_out {
	struct sentence sentences[MAX_SENTENCES];
	size_t count;
	size_t grave; /* how many of them, from the first on, are above a threshold */
};

/* The result is valid as long as the profile is. */
struct error *stands_out_find(const struct profile *p, const struct profile_symbols *symbols,
			      struct stands_out *ret) must_check;
void stands_out_release(struct stands_out *s);

#define _cleanup_stands_out_ __attribute__((cleanup(stands_out_release)))

#endif
