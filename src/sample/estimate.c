#include "sample/estimate.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

void estimate_init(struct estimate *e, uint64_t seed)
{
	*e = (struct estimate){.random = seed};
}

void estimate_release(struct estimate *e)
{
	buckets_release(&e->buckets);
	precision_release(&e->precision);
	free(e->order);
}

static uint64_t next_random(struct estimate *e)
{
	e->random ^= e->random << 13;
	e->random ^= e->random >> 7;
	e->random ^= e->random << 17;
	return e->random;
}

double estimate_random(struct estimate *e)
{
	return (next_random(e) >> 11) * 0x1p-53;
}

static void shuffle(struct estimate *e)
{
	for (size_t i = e->unit_count; i > 1; i--) {
		size_t k = next_random(e) % i;
		uint32_t swap = e->order[i - 1];

		e->order[i - 1] = e->order[k];
		e->order[k] = swap;
	}
}

struct error *estimate_begin_pass(struct estimate *e, uint64_t now, size_t unit_count,
				  bool shuffled)
{
	if (!array_reserve(&e->order, &e->order_capacity, unit_count))
		return &error_no_memory;
	e->unit_count = unit_count;
	for (size_t i = 0; i < unit_count; i++)
		e->order[i] = i;
	if (shuffled)
		shuffle(e);
	e->next = 0;
	if (now > e->began)
		e->began = now;
	return NULL;
}

void estimate_begin_at(struct estimate *e, uint64_t now)
{
	e->began = now;
}

void estimate_end_pass(struct estimate *e, uint64_t now)
{
	if (now < e->began)
		now = e->began;
	precision_end_pass(&e->precision, now - e->began);
	e->credited += now - e->began;
	e->passes++;
	e->began = now;
}

void estimate_end_tick(struct estimate *e, size_t next)
{
	if (next != e->next)
		precision_end_tick(&e->precision);
	e->next = next;
}

static void note_stay(struct wall_bucket *b, const struct goroutine_record *r, uint64_t ns)
{
	if (ns <= b->longest_ns)
		return;
	b->longest_ns = ns;
	b->longest_goroutine = r->goid;
}

static void deliver_stay(const struct estimate *e, const struct goroutine_record *r, uint64_t end,
			 bool whole)
{
	if (e->stayed && end > r->owner_since)
		e->stayed(e->stayed_arg,
			  &(struct wall_stay){r->goid, r->owner_since, end, r->owner_bucket,
					      goroutine_status(r) == G_RUNNING, whole});
}

/* Credits the time of `before`, which ends at the beginning of this pass. */
static void credit(struct estimate *e, const struct goroutine_record *before)
{
	struct wall_bucket *b;

	if (before->owner_bucket == BUCKET_NONE)
		return;
	b = &e->buckets.items[before->owner_bucket];
	b->count += e->passes - before->owner_pass;
	b->ns += e->credited - before->owner_since;
	note_stay(b, before, e->credited - before->owner_since);
	deliver_stay(e, before, e->credited, false);
}

/* Whether it is where it was, and did not leave in between. A running goroutine may save its sp and
 * pc, but trackingSeq changes when it stops. */
static bool stood_still(const struct goroutine_record *a, const struct goroutine_record *b)
{
	if (a->goid != b->goid || a->key != b->key || a->stack != b->stack ||
	    a->labels != b->labels)
		return false;
	return goroutine_status(b) == G_RUNNING ||
	       (a->sp == b->sp && a->pc == b->pc && a->tick == b->tick);
}

struct error *estimate_see(struct estimate *e, const struct goroutine_record *before,
			   struct goroutine_record *now, bool wanted)
{
	if (before->owner_bucket != BUCKET_NONE && stood_still(before, now))
		return NULL;
	credit(e, before);
	now->owner_bucket = BUCKET_NONE;
	now->owner_since = e->credited;
	now->owner_pass = e->passes;
	if (wanted) {
		now->owner_bucket = buckets_of(&e->buckets, now);
		if (now->owner_bucket == BUCKET_NONE)
			return &error_no_memory;
	}
	if (!precision_look(&e->precision, before->owner_bucket, now->owner_bucket))
		return &error_no_memory;
	return NULL;
}

static bool may_be_idle(enum goroutine_status status)
{
	return status != G_RUNNING && status != G_RUNNABLE;
}

/* Credits the rest of a goroutine's time, and whether it was idle all the time. */
static void finish_record(struct estimate *e, const struct goroutine_record *r, bool scanned,
			  uint64_t rest)
{
	struct wall_bucket *b;
	uint64_t ns, count;

	if (r->owner_bucket == BUCKET_NONE)
		return;
	b = &e->buckets.items[r->owner_bucket];
	ns = e->credited - r->owner_since + rest;
	count = e->passes - r->owner_pass + scanned;
	b->ns += ns;
	b->count += count;
	note_stay(b, r, ns);
	deliver_stay(e, r, e->credited + rest, !r->owner_pass);
	if (!r->owner_pass && may_be_idle(goroutine_status(r))) {
		b->idle_ns += ns;
		b->idle_count += count;
	}
}

/*
 * Applies the change seen in the sampled part to the rest: `factor` ns a goroutine. An amount below
 * 0 is clipped, so it is missing from the sum.
 */
static void expand(struct estimate *e, double factor)
{
	double short_by = 0, added = 0, part;

	for (size_t i = 1; i < e->buckets.count; i++) {
		double more = factor * precision_net(&e->precision, i);

		short_by += fmax(-more - e->buckets.items[i].ns, 0);
		added += fmax(more, 0);
	}
	part = added > short_by ? 1 - short_by / added : 0;
	for (size_t i = 1; i < e->buckets.count; i++) {
		struct wall_bucket *b = &e->buckets.items[i];
		double more = factor * precision_net(&e->precision, i);

		b->ns = fmax(b->ns + (more > 0 ? part * more : more), 0);
		/* A goroutine with one sample counts as idle. */
		if (!e->passes && may_be_idle(b->status))
			b->idle_ns = b->ns;
	}
}

static void report_cpu(struct buckets *b)
{
	for (size_t i = 1; i < b->count; i++)
		if (b->items[i].status == G_RUNNING)
			b->items[i].cpu_ns = b->items[i].ns;
}

void estimate_finish(struct estimate *e, uint64_t now, const struct goroutine_record *records,
		     const struct goroutine_unit *units)
{
	bool cut = e->next < e->unit_count;
	double seen = 0, all = 0, rest;

	if (now < e->began)
		now = e->began;
	if (e->unit_count && !cut)
		estimate_end_pass(e, now);
	rest = cut ? now - e->began : 0;
	for (size_t i = 0; i < e->unit_count; i++) {
		const struct goroutine_unit *u = &units[e->order[i]];

		all += u->count;
		seen += i < e->next ? u->count : 0;
		if (!e->passes && i >= e->next)
			continue; /* never scanned */
		for (uint32_t k = u->first; k < u->first + u->count; k++)
			finish_record(e, &records[k], cut && i < e->next, rest);
	}
	if (cut && seen) {
		expand(e, rest * (all / seen - 1));
		precision_cut_pass(&e->precision, rest, all / seen);
	}
	report_cpu(&e->buckets);
	precision_finish(&e->precision, &e->buckets);
}
