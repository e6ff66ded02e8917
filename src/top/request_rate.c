#include "top/request_rate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* The most durations that are kept, and the most open requests that are followed. */
#define MOST_DONE 4096
#define MOST_BEGUN (1u << 16)
/* If more than this part of idle connections moved between two samples, their number says nothing
 * about how many requests came. */
#define MOST_MOVED_PART 0.9
/* If more than this part of requests was seen once, others were probably missed. */
#define MANY_SINGLE 0.1

/* Packs when a request began, and whether the goroutine serves a connection, into a word; the
 * lowest bit of the time is lost. */
static uint64_t pack(uint64_t when, bool has_connection)
{
	return (when | 1) - !has_connection;
}

void request_rate_release(struct request_rate *r)
{
	map_release(&r->begun);
	free(r->done);
	*r = (struct request_rate){0};
}

static void begin(struct request_rate *r, uint64_t goid, bool has_connection, uint64_t now)
{
	uint64_t *when = r->begun.count < MOST_BEGUN ? map_at(&r->begun, goid) : NULL;

	if (!when)
		r->left_out++;
	else if (!*when)
		*when = pack(now - r->interval / 2, has_connection);
}

static void add_done(struct request_rate *r, uint64_t duration)
{
	if (!r->done)
		r->done = malloc(MOST_DONE * sizeof(*r->done));
	if (r->done)
		r->done[r->done_count++ % MOST_DONE] = duration;
}

static void end(struct request_rate *r, uint64_t goid, uint64_t now)
{
	const uint64_t *found = map_find(&r->begun, goid);
	uint64_t when = found ? *found : 0, ended = now - r->interval / 2;
	uint64_t duration = ended > when ? ended - when : 0;

	if (!when)
		return;
	map_remove(&r->begun, goid);
	add_done(r, duration);
	r->now.single += !(when & 1) && duration <= r->interval;
}

void request_rate_moved(struct request_rate *r, uint64_t goid, enum request_place before,
			enum request_place after, uint64_t now)
{
	r->seen |= after == REQUEST_WITHIN;
	if (after == REQUEST_BETWEEN && before == REQUEST_BETWEEN) {
		r->now.quick++;
	} else if (after == REQUEST_BETWEEN || after == REQUEST_NOT) {
		end(r, goid, now);
	} else if (before == REQUEST_BETWEEN) {
		r->now.begun++;
		begin(r, goid, true, now);
	} else if (before == REQUEST_NOT && after == REQUEST_WITHIN && r->second_count) {
		/* In the first second the request was there before. */
		begin(r, goid, false, now);
	}
}

void request_rate_ended(struct request_rate *r, uint64_t goid, enum request_place before,
			uint64_t now)
{
	if (before != REQUEST_NOT)
		end(r, goid, now);
}

void request_rate_second(struct request_rate *r, uint64_t ns, double looks, double idle)
{
	if (!ns || looks <= 0)
		return;
	r->interval = ns / looks;
	r->now.ns = ns;
	r->now.interval = r->interval;
	r->now.idle = idle;
	r->seconds[r->second_count++ % REQUEST_RATE_SECONDS] = r->now;
	r->now = (struct request_second){.first_done = r->done_count};
}

/*
 * Estimates how many requests were not seen in a handler. Of the samples that found a connection
 * idle, some find in the next sample that a request came in between. With n requests between two
 * samples on average, e^-n find none. *at_least: there may be many more.
 */
static double quick_requests(const struct request_second *s, bool *at_least)
{
	double looks = s->interval ? s->idle * s->ns / s->interval : 0;
	double moved = s->quick + s->begun;
	double part = looks > moved ? moved / looks : 1, all;

	if (!s->quick)
		return 0;
	if (part > MOST_MOVED_PART) {
		*at_least = true;
		part = MOST_MOVED_PART;
	}
	all = looks * -log1p(-part) - s->begun;
	return all > s->quick ? all : s->quick;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The quantile of `quick` short durations and then the sorted ones, which stand for `all`. */
static uint64_t quantile(double part, double quick, const uint64_t *sorted, size_t count,
			 double all)
{
	double rank = part * (quick + all) - quick;
	size_t at = rank > 0 && all > 0 ? rank / all * count : 0;

	if (rank < 0 || !count)
		return 0;
	return sorted[at < count ? at : count - 1];
}

static uint64_t oldest(const struct request_rate *r, uint64_t now)
{
	uint64_t first = now;

	for (size_t i = 0; i < r->begun.capacity; i++)
		if (r->begun.slots[i].key != MAP_NO_KEY && r->begun.slots[i].value < first)
			first = r->begun.slots[i].value;
	return now - first;
}

/* Sums over the window; returns the number of the first request in it that ended. */
static uint64_t sum_up(const struct request_rate *r, uint64_t window_ns, uint64_t *ns,
		       double *quick, uint32_t *single, struct request_numbers *n)
{
	uint64_t kept =
		r->second_count < REQUEST_RATE_SECONDS ? r->second_count : REQUEST_RATE_SECONDS;
	uint32_t first = r->now.first_done;

	for (uint64_t i = 0; i < kept && *ns + 500000000 < window_ns; i++) {
		const struct request_second *s =
			&r->seconds[(r->second_count - 1 - i) % REQUEST_RATE_SECONDS];

		*ns += s->ns;
		*quick += quick_requests(s, &n->at_least);
		*single += s->single;
		first = s->first_done;
	}
	return first;
}

bool request_rate_get(const struct request_rate *r, uint64_t window_ns, uint64_t now,
		      struct request_numbers *ret)
{
	struct request_numbers n = {.interval = r->interval, .oldest = oldest(r, now)};
	_cleanup_free_ uint64_t *sorted = malloc(MOST_DONE * sizeof(*sorted));
	uint32_t single = 0, done;
	double quick = 0;
	uint64_t ns = 0;
	size_t count;

	if (!r->seen || !sorted)
		return false;
	/* Modulo 2^32, like the stored numbers of requests. */
	done = r->now.first_done - (uint32_t)sum_up(r, window_ns, &ns, &quick, &single, &n);
	count = done < MOST_DONE ? done : MOST_DONE;
	for (size_t i = 0; r->done && i < count; i++)
		sorted[i] = r->done[(r->now.first_done - 1 - i) % MOST_DONE];
	qsort(sorted, count, sizeof(*sorted), compare_times);
	n.rate = ns ? (quick + done) / (ns / 1e9) : 0;
	n.at_least |= r->left_out || single > MANY_SINGLE * (quick + done);
	n.p50 = quantile(0.50, quick, sorted, count, done);
	n.p99 = quantile(0.99, quick, sorted, count, done);
	n.p50 = n.p50 > n.interval ? n.p50 : 0;
	n.p99 = n.p99 > n.interval ? n.p99 : 0;
	*ret = n;
	return true;
}
