/*
 * How many requests come and how long they take, told by looks at goroutines: each look says
 * whether a goroutine is in a request's handler. Knows neither clock nor target.
 *
 * All of it is an estimate. A request begins and ends between two looks, so a duration is right
 * within the time between looks. A goroutine that serves a connection is seen to have run when it
 * stands between two requests again: that was a request, however short. So is a request of which
 * nothing else is seen in such a goroutine; several between two looks are counted by how often
 * there is none (Poisson). A goroutine that serves one request alone (HTTP/2, gRPC) may come and go
 * unseen: then the rate is a lower bound.
 */
#ifndef TOP_REQUEST_RATE_H
#define TOP_REQUEST_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"

/* Where a look finds a goroutine. */
enum request_place {
	REQUEST_NOT,     /* it serves nothing */
	REQUEST_BETWEEN, /* it has a connection and waits for the next request on it */
	REQUEST_WITHIN,  /* in a handler */
	REQUEST_UNKNOWN, /* it runs, or its stack was not read: as before, or it has begun */
};

#define REQUEST_RATE_SECONDS 60

struct request_second {
	uint64_t ns;
	uint64_t interval;   /* between two looks at a goroutine, on average */
	uint32_t first_done; /* in `done`: of all that ever ended, the first of this second */
	uint32_t begun;      /* on a connection, and were seen before their end */
	uint32_t quick;      /* not seen in a handler: shorter than the interval */
	uint32_t single;     /* seen once, in a goroutine that ended with it */
	double idle;         /* connections between two requests, on average */
};

struct request_rate {
	struct map begun; /* goid -> when its request began */
	/* Durations of those that ended, a ring. */
	uint64_t *done;
	uint64_t done_count; /* of all that ever ended */
	struct request_second seconds[REQUEST_RATE_SECONDS];
	uint64_t second_count;
	struct request_second now; /* the second that goes on */
	uint64_t interval;         /* of the last second */
	uint64_t left_out;         /* too many at a time */
	bool seen;                 /* there ever was a handler */
};

struct request_numbers {
	double rate;    /* a second */
	bool at_least;  /* the rate is a lower bound */
	double current; /* in progress, on average: the caller's to fill in */
	uint64_t p50;   /* ns; 0: shorter than `interval` */
	uint64_t p99;
	uint64_t oldest;   /* in progress: how long */
	uint64_t interval; /* shorter durations are not told apart */
};

void request_rate_release(struct request_rate *r);
/* A goroutine that was there and is here now; one that was not there before was REQUEST_NOT. */
void request_rate_moved(struct request_rate *r, uint64_t goid, enum request_place before,
			enum request_place after, uint64_t now);
/* The goroutine ended, or its g has another one now. */
void request_rate_ended(struct request_rate *r, uint64_t goid, enum request_place before,
			uint64_t now);
/* A second of so much time, with so many looks at each goroutine, in which so many connections were
 * between two requests. */
void request_rate_second(struct request_rate *r, uint64_t ns, double looks, double idle);
/* Over the last seconds, of so much time in all. False: there was never a request. */
bool request_rate_get(const struct request_rate *r, uint64_t window_ns, uint64_t now,
		      struct request_numbers *ret);

#endif
