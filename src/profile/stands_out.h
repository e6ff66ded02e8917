/*
 * The findings of a profile, as sentences: what requests wait for, locks, what happens at regular
 * intervals, growth, CPU, the garbage collector, crowds of goroutines, system calls. Each is made
 * only above a threshold, the gravest comes first. Facts about any profile follow: what waits for
 * work, and in which loops, how many goroutines there are, the longest wait, the largest part. With
 * each sentence comes the view of the profile that shows it.
 */
#ifndef PROFILE_STANDS_OUT_H
#define PROFILE_STANDS_OUT_H

#include "profile/profile.h"

#define MAX_SENTENCES 5
/* One place is left for what waits for work. */
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
	size_t grave; /* so many of them, from the first, are above a threshold */
};

/* The result is valid as long as the profile is. */
struct error *stands_out_find(const struct profile *p, const struct profile_symbols *symbols,
			      struct stands_out *ret) must_check;
void stands_out_release(struct stands_out *s);

#define _cleanup_stands_out_ __attribute__((cleanup(stands_out_release)))

#endif
