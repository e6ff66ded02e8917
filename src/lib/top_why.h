/* The sentence that says what stands out in a live view, and its estimates of requests. */
#ifndef LIB_TOP_WHY_H
#define LIB_TOP_WHY_H

#include "lib/top_profile.h"
#include "top/names.h"

struct top_why {
	char text[512]; /* "": nothing stands out */
	bool known;
	uint64_t next_at; /* CLOCK_MONOTONIC: when to compute it again */
};

/* Computes the sentence if it is due. `share`: how much of a core it may use on average. */
struct error *top_why_find(struct top_why *w, const struct top_source *s, uint64_t now,
			   double share) must_check;

struct request_watch {
	struct request_rate rate;
	struct request_numbers numbers;
	bool shown; /* there are requests: `numbers` cover the window */
	/* The samples up to the last interval. */
	struct wall_looks looks;
};

void request_watch_release(struct request_watch *w);
/* The sampler calls it for a goroutine that moved. */
void request_watch_moved(struct request_watch *w, struct top_names *names,
			 const struct goroutine_record *before,
			 const struct goroutine_record *after, uint64_t now);
/* Call it after an interval was added to the model; `looks` are all samples so far. */
struct error *request_watch_interval(struct request_watch *w, const struct top_model *m,
				     struct top_names *names, struct wall_looks looks,
				     uint64_t now) must_check;
/* Call it instead when the interval is left out. */
void request_watch_skip(struct request_watch *w, struct wall_looks looks, uint64_t now);
/* Computes the numbers for the model's window. */
void request_watch_count(struct request_watch *w, const struct top_model *m, uint64_t now);

#endif
