/*
 * Estimates how many requests come and how long they take, from samples of goroutines: each shows
 * whether a goroutine is in a request's handler. Knows neither clock nor target.
 *
 * A request begins and ends between two samples, so a duration is right to within one interval
 * between samples. If a goroutine that serves a connection is idle again but has run, it served at
 * least one request, however short. How often there was none shows how many there were on average
 * (Poisson, corrected for irregular intervals). A goroutine that serves a single request (HTTP/2,
 * gRPC) may come and go unseen: then the rate is a lower bound.
 *
 * A request is in progress from the sample that finds it to the sample that does not. A short one
 * is rarely seen, and then counts for the whole interval: so the mean is unbiased. A running
 * goroutine has no stack in memory; it counts as in the request that it began. On a busy machine
 * that is much of a request's time, for its thread waits for a CPU.
 */
#ifndef TOP_REQUEST_RATE_H
#define TOP_REQUEST_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"

/* Where a sample finds a goroutine. */
enum request_place {
	REQUEST_NOT,     /* it serves no request */
	REQUEST_BETWEEN, /* it has a connection and waits for the next request on it */
	REQUEST_WITHIN,  /* in a handler */
	REQUEST_UNKNOWN, /* it runs, or its stack was not read: as before, or a request has begun */
};

/* The samples of a second. */
struct request_looks {
	uint64_t ns;    /* the time that they cover */
	double count;   /* samples of each goroutine */
	double squares; /* the sum of the squared intervals between them, in s^2 */
	double idle;    /* idle connections, on average */
};

#define REQUEST_RATE_SECONDS 60

struct request_second {
	uint64_t ns;
	uint64_t interval; /* between two samples of a goroutine, on average */
	double uneven;     /* the variance of intervals, relative to their squared mean */
	uint32_t
		first_done; /* index in `done` of the first of this second, counted over all time */
	uint32_t begun;     /* requests on a connection that were seen before their end */
	uint32_t quick;     /* requests that were not seen in a handler: shorter than the
			     * interval */
	uint32_t single;    /* requests that were seen once, in a goroutine that ended with them */
	double idle;        /* idle connections, on average */
	double progress;    /* ns that requests were in progress, summed over requests */
	uint64_t progress_ns; /* the time that `progress` covers */
};

struct request_rate {
	struct map begun;  /* goid -> when its request began: see pack() */
	uint64_t advanced; /* the time up to which requests in progress are counted */
	/* Durations of requests that have ended; a ring. */
	uint64_t *done;
	uint64_t done_count; /* requests that have ended, over all time */
	struct request_second seconds[REQUEST_RATE_SECONDS];
	uint64_t second_count;
	struct request_second now; /* the current second */
	uint64_t interval;         /* of the last second */
	uint64_t left_out;         /* more open requests than are followed */
	bool seen;                 /* whether a handler was ever seen */
};

struct request_numbers {
	double rate;    /* a second */
	bool at_least;  /* the rate is a lower bound */
	double current; /* in progress, on average */
	uint64_t p50;   /* ns; 0: shorter than `interval` */
	uint64_t p99;
	uint64_t oldest;   /* the age of the oldest in progress */
	uint64_t interval; /* shorter durations are not distinguished */
};

void request_rate_release(struct request_rate *r);
/* A goroutine moved. If it did not exist before, `before` is REQUEST_NOT. */
void request_rate_moved(struct request_rate *r, uint64_t goid, enum request_place before,
			enum request_place after, uint64_t now);
/* The goroutine ended, or its g belongs to another one now. */
void request_rate_ended(struct request_rate *r, uint64_t goid, enum request_place before,
			uint64_t now);
/* A second is over. */
void request_rate_second(struct request_rate *r, const struct request_looks *looks, uint64_t now);
/* There were no samples for a while: what was seen since the last second does not count. */
void request_rate_skip(struct request_rate *r, uint64_t now);
/* Over the last seconds, of so much time in all. False: there was never a request. */
bool request_rate_get(const struct request_rate *r, uint64_t window_ns, uint64_t now,
		      struct request_numbers *ret);

#endif
