/* A live view without its screen: its numbers and profiles, for a caller that shows them itself. */
#ifndef LIB_TOP_NUMBERS_H
#define LIB_TOP_NUMBERS_H

#include <gospect/top.h>

#include "base/error.h"
#include "top/request_rate.h"

struct top_numbers {
	double seconds;   /* the time that they cover: since the last call */
	double states[4]; /* seconds of all goroutines, by enum gospect_state */
	double cpu;       /* seconds */
	double locks;     /* seconds of waits for locks of sync */
	bool has_requests;
	struct request_numbers requests; /* of the last seconds */
};

/* A view that looks `rate` times a second, and holds little memory. Numbers of requests cover
 * `seconds`, 60 at most. */
struct error *top_watch_create(struct gospect_target *target, double budget, double rate,
			       unsigned int seconds, struct gospect_top **ret) must_check;
/* As gospect_top_step(), without pages. */
struct error *top_watch_step(struct gospect_top *t, bool *ret_ended) must_check;
struct error *top_numbers_take(struct gospect_top *t, struct top_numbers *ret) must_check;
/* The last `seconds`, 60 at most, as far as they were seen. */
struct error *top_watch_profile(struct gospect_top *t, unsigned int seconds,
				struct gospect_profile **ret) must_check;

#endif
