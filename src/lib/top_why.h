/* What stands out in a live view, in a sentence; and the requests in it. */
#ifndef LIB_TOP_WHY_H
#define LIB_TOP_WHY_H

#include "lib/top_profile.h"
#include "top/names.h"

struct top_why {
	char text[512]; /* "": nothing stands out */
	bool known;
	uint64_t next_at; /* CLOCK_MONOTONIC: when it is worth finding out again */
};

/* Finds the sentence, if it is time to. `share`: of a core, what it may cost in the long run. */
struct error *top_why_find(struct top_why *w, const struct top_source *s, uint64_t now,
			   double share) must_check;

struct request_watch {
	struct request_rate rate;
	struct request_numbers numbers;
	bool shown;   /* there are requests: `numbers` are of the window */
	double looks; /* at each goroutine, up to the last interval */
};

void request_watch_release(struct request_watch *w);
/* What the sampler calls for a goroutine that moved. */
void request_watch_moved(struct request_watch *w, struct top_names *names,
			 const struct goroutine_record *before,
			 const struct goroutine_record *after, uint64_t now);
/* After an interval was added to the model. */
struct error *request_watch_interval(struct request_watch *w, const struct top_model *m,
				     struct top_names *names, double looks) must_check;
/* Numbers of the model's window. */
struct error *request_watch_count(struct request_watch *w, const struct top_model *m,
				  struct top_names *names, uint64_t now) must_check;

#endif
