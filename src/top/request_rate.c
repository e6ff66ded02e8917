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
/* The largest unevenness of intervals: that of samples at random times. */
#define MOST_UNEVEN 1.0
/* If more than this part of requests was seen once, others were probably missed. */
#define MANY_SINGLE 0.1

/* Flags in the lowest bits of a time in `begun`. */
enum {
	HAS_CONNECTION = 1, /* its goroutine serves a connection */
	BEGAN_BEFORE = 2,   /* the first sample found it, so its begin is unknown */
	FLAGS = 3
};

static uint64_t pack(uint64_t when, unsigned int flags)
{
	return ((when | FLAGS) ^ FLAGS) + FLAGS + 1 + flags;
}

/* Counts the requests in progress up to now. */
static void advance(struct request_rate *r, uint64_t now)
{
	uint64_t passed = now > r->advanced ? now - r->advanced : 0;

	if (r->advanced) {
		r->now.progress += (double)r->begun.count * passed;
		r->now.progress_ns += passed;
	}
	r->advanced += r->advanced ? passed : now;
}

void request_rate_release(struct request_rate *r)
{
	map_release(&r->begun);
	free(r->done);
	*r = (struct request_rate){0};
}

static void begin(struct request_rate *r, uint64_t goid, bool has_connection, uint64_t now)
{
	unsigned int flags = (has_connection ? HAS_CONNECTION : 0) |
			     (r->second_count || has_connection ? 0 : BEGAN_BEFORE);
	uint64_t *when;

	advance(r, now);
	when = r->begun.count < MOST_BEGUN ? map_at(&r->begun, goid) : NULL;
	if (!when)
		r->left_out++;
	else if (!*when)
		*when = pack(now - r->interval / 2, flags);
}

static void add_done(struct request_rate *r, uint64_t duration)
{
	if (!r->done)
		r->done = malloc(MOST_DONE * sizeof(*r->done));
	if (r->done)
		r->done[r->done_count++ % MOST_DONE] = duration;
}

static void end(struct request_rate *r, uint64_t goid, bool has_connection, uint64_t now)
{
	const uint64_t *found = map_find(&r->begun, goid);
	uint64_t when = found ? *found : 0, ended = pack(now - r->interval / 2, 0);
	uint64_t duration = ended > when ? ended - (when - (when & FLAGS)) : 0;

	if (!when)
		return;
	advance(r, now);
	map_remove(&r->begun, goid);
	if (when & BEGAN_BEFORE)
		return;
	add_done(r, duration);
	has_connection |= when & HAS_CONNECTION;
	r->now.single += !has_connection && duration <= r->interval;
}

void request_rate_moved(struct request_rate *r, uint64_t goid, enum request_place before,
			enum request_place after, uint64_t now)
{
	r->seen |= after == REQUEST_WITHIN;
	if (after == REQUEST_BETWEEN && before == REQUEST_BETWEEN) {
		r->now.quick++;
	} else if (after == REQUEST_BETWEEN || after == REQUEST_NOT) {
		end(r, goid, after == REQUEST_BETWEEN, now);
	} else if (before == REQUEST_BETWEEN) {
		r->now.begun++;
		begin(r, goid, true, now);
	} else if (after == REQUEST_WITHIN && !map_find(&r->begun, goid)) {
		/* It is new, or it ran before its handler was seen. */
		begin(r, goid, false, now);
	}
}

void request_rate_ended(struct request_rate *r, uint64_t goid, enum request_place before,
			uint64_t now)
{
	if (before != REQUEST_NOT)
		end(r, goid, false, now);
}

void request_rate_second(struct request_rate *r, const struct request_looks *looks, uint64_t now)
{
	double mean = looks->count > 0 ? looks->ns / 1e9 / looks->count : 0;

	if (!(mean > 0))
		return;
	advance(r, now);
	r->interval = mean * 1e9;
	r->now.ns = looks->ns;
	r->now.interval = r->interval;
	r->now.uneven = looks->squares / looks->count / (mean * mean) - 1;
	r->now.uneven = fmin(fmax(r->now.uneven, 0), MOST_UNEVEN);
	r->now.idle = looks->idle;
	r->seconds[r->second_count++ % REQUEST_RATE_SECONDS] = r->now;
	r->now = (struct request_second){.first_done = r->done_count};
}

void request_rate_skip(struct request_rate *r, uint64_t now)
{
	r->now = (struct request_second){.first_done = r->done_count};
	r->advanced = now;
}

/*
 * The mean number of requests in an interval, if this part of intervals has some. If intervals are
 * regular, e^-n of them have none. If they are irregular, more requests fall into long intervals,
 * and fewer intervals have some: the lengths are taken to have a gamma distribution, which has a
 * closed form.
 */
static double mean_of(double part, double uneven)
{
	double regular = -log1p(-part);

	return uneven > 1e-6 ? expm1(uneven * regular) / uneven : regular;
}

/*
 * Estimates how many requests were not seen in a handler. Of the samples that found a connection
 * idle, some find in the next sample that a request came in between. *at_least: there may be many
 * more.
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
	all = looks * mean_of(part, s->uneven) - s->begun;
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
		if (r->begun.slots[i].key != MAP_NO_KEY &&
		    !(r->begun.slots[i].value & BEGAN_BEFORE) && r->begun.slots[i].value < first)
			first = r->begun.slots[i].value;
	return now - first;
}

/* Sums over the window. */
struct request_sums {
	uint64_t ns, progress_ns;
	double quick, progress;
	uint32_t single;
	uint32_t first_done; /* the first request in it that ended */
	bool at_least;
};

static struct request_sums sum_up(const struct request_rate *r, uint64_t window_ns)
{
	uint64_t kept =
		r->second_count < REQUEST_RATE_SECONDS ? r->second_count : REQUEST_RATE_SECONDS;
	struct request_sums sums = {.first_done = r->now.first_done};

	for (uint64_t i = 0; i < kept && sums.ns + 500000000 < window_ns; i++) {
		const struct request_second *s =
			&r->seconds[(r->second_count - 1 - i) % REQUEST_RATE_SECONDS];

		sums.ns += s->ns;
		sums.quick += quick_requests(s, &sums.at_least);
		sums.progress += s->progress;
		sums.progress_ns += s->progress_ns;
		sums.single += s->single;
		sums.first_done = s->first_done;
	}
	return sums;
}

bool request_rate_get(const struct request_rate *r, uint64_t window_ns, uint64_t now,
		      struct request_numbers *ret)
{
	struct request_numbers n = {.interval = r->interval, .oldest = oldest(r, now)};
	_cleanup_free_ uint64_t *sorted = malloc(MOST_DONE * sizeof(*sorted));
	struct request_sums sums;
	uint32_t done;
	size_t count;

	if (!r->seen || !sorted)
		return false;
	sums = sum_up(r, window_ns);
	/* Modulo 2^32, like the stored numbers of requests. */
	done = r->now.first_done - sums.first_done;
	count = done < MOST_DONE ? done : MOST_DONE;
	for (size_t i = 0; r->done && i < count; i++)
		sorted[i] = r->done[(r->now.first_done - 1 - i) % MOST_DONE];
	qsort(sorted, count, sizeof(*sorted), compare_times);
	n.rate = sums.ns ? (sums.quick + done) / (sums.ns / 1e9) : 0;
	n.current = sums.progress_ns ? sums.progress / sums.progress_ns : 0;
	n.at_least =
		sums.at_least || r->left_out || sums.single > MANY_SINGLE * (sums.quick + done);
	n.p50 = quantile(0.50, sums.quick, sorted, count, done);
	n.p99 = quantile(0.99, sums.quick, sorted, count, done);
	n.p50 = n.p50 > n.interval ? n.p50 : 0;
	n.p99 = n.p99 > n.interval ? n.p99 : 0;
	*ret = n;
	return true;
}
