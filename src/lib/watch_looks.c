#include "lib/watch_looks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "golayout/view.h"
#include "lib/resident.h"

#define UNIT_BYTES (256u << 10)
#define STACK_LIMIT (64u << 10)
/* Stacks and labels that were ever seen take memory: then, or after so many, all is read anew. */
#define MOST_STACKS 20000
#define MOST_AGE_NS 600000000000ull
#define MOST_FRAMES 16
#define SECOND_NS 1000000000ull

struct error *looks_parse(struct looks *l, const char *const *texts)
{
	for (; *texts; texts++) {
		struct error *err;

		if (l->count == LOOKS_MOST_CONDITIONS)
			return error_format(ERROR_USAGE, "too many conditions: the limit is %d",
					    LOOKS_MOST_CONDITIONS);
		err = condition_parse(*texts, &l->conditions[l->count]);
		if (!err && !condition_is_of_looks(&l->conditions[l->count]))
			err = error_format(
				ERROR_USAGE,
				"condition '%s' needs a trace: use gospect trace --flight "
				"with --when",
				condition_word(&l->conditions[l->count]));
		if (err)
			return err;
		l->count++;
	}
	return NULL;
}

void looks_release(struct looks *l)
{
	for (size_t i = 0; i < l->count; i++)
		condition_release(&l->conditions[i]);
	goroutine_set_close(l->set);
	map_release(&l->stacks);
}

static void __attribute__((format(printf, 3, 4)))
report(struct looks *l, size_t i, const char *format, ...)
{
	char sentence[CONDITION_TEXT];
	va_list args;

	if (!back_off_allows(&l->states[i].back_off, l->now, l->rest_ns)) {
		l->rested++;
		return;
	}
	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	l->incidents++;
	l->incident(l->arg, condition_word(&l->conditions[i]), sentence);
}

/* ---- reading all goroutines ---- */

/* owner_since: when a goroutine was first seen in its place. owner_bucket: which conditions have
 * been told of that. */
static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	struct looks *l = arg;
	struct goroutine_details d;
	size_t place;

	now->owner_since = l->now;
	now->owner_bucket = 0;
	if (!l->before)
		return NULL;
	goroutine_details(l->set, header, &d);
	if (goroutine_set_find(l->before, d.g, &place)) {
		const struct goroutine_record *old = &goroutine_set_records(l->before)[place];

		if (old->goid == now->goid && old->sp == now->sp && old->pc == now->pc &&
		    old->key == now->key) {
			now->owner_since = old->owner_since;
			now->owner_bucket = old->owner_bucket;
		}
	}
	return NULL;
}

static struct error *must_check open_set(struct looks *l)
{
	const struct gospect_target *t = l->target;
	struct goroutine_options how = {.stack_limit = STACK_LIMIT, .changed = changed, .arg = l};

	l->before = l->set;
	l->set = NULL;
	map_release(&l->stacks);
	l->stacks = (struct map){0};
	l->opened = l->now;
	return goroutine_set_open(t->target, t->image, t->layout, &how, &l->set);
}

static struct error *must_check scan(struct goroutine_set *set)
{
	_cleanup_free_ uint32_t *order = NULL;
	const struct goroutine_unit *units;
	size_t count, scanned = 0;
	struct error *err = goroutine_set_refresh(set);

	if (!err)
		err = goroutine_set_plan(set, UNIT_BYTES, &units, &count);
	if (err)
		return err;
	order = malloc((count + 1) * sizeof(*order));
	if (!order)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = 0; !err && i < count; i += scanned)
		err = goroutine_set_scan(set, order + i, count - i, &scanned);
	return err;
}

static struct error *must_check read_goroutines(struct looks *l)
{
	struct error *err = NULL;

	if (!l->set || l->now - l->opened > MOST_AGE_NS ||
	    stacks_count(goroutine_set_stacks(l->set)) > MOST_STACKS)
		err = open_set(l);
	if (!err)
		err = scan(l->set);
	goroutine_set_close(l->before);
	l->before = NULL;
	return err;
}

/* ---- levels ---- */

static void count_goroutines(struct looks *l)
{
	const struct goroutine_record *records = goroutine_set_records(l->set);
	size_t count = goroutine_set_count(l->set), n = 0;

	for (size_t i = 0; i < count; i++)
		n += goroutine_is_alive(&records[i]) && !(records[i].flags & GOROUTINE_SYSTEM);
	l->goroutines = n;
}

/* How many more goroutines there are than at the best time of the last minute. */
static uint64_t growth(struct looks *l)
{
	uint64_t second = l->now / SECOND_NS, least = l->goroutines;

	l->history[second % LOOKS_GROWTH_S] = (struct looks_count){second, l->goroutines};
	for (size_t i = 0; i < LOOKS_GROWTH_S; i++)
		if (l->history[i].second && second - l->history[i].second < LOOKS_GROWTH_S &&
		    l->history[i].count < least)
			least = l->history[i].count;
	return l->goroutines - least;
}

static uint64_t read_heap(struct looks *l)
{
	struct trace_event events[COUNTERS_MAX_EVENTS];

	counters_read(&l->counters, l->target->target, l->target->layout, events);
	return l->counters.heap_alloc;
}

static void check_rss(struct looks *l, size_t i)
{
	struct resident r = resident_read(target_pid(l->target->target));
	const struct condition *c = &l->conditions[i];
	char text[CONDITION_TEXT];

	if (!level_rises(&l->states[i].is_above, condition_rss_level(c, r.rss, r.limit), c->limit))
		return;
	condition_rss_text(r.rss, r.limit, text);
	report(l, i, "%s", text);
}

static void check_levels(struct looks *l, uint64_t grown)
{
	for (size_t i = 0; i < l->count; i++) {
		uint64_t limit = l->conditions[i].limit, heap;
		bool *is_above = &l->states[i].is_above;

		switch (l->conditions[i].kind) {
		case CONDITION_GOROUTINES:
			if (level_rises(is_above, l->goroutines, limit))
				report(l, i, "there are %lu goroutines", l->goroutines);
			break;
		case CONDITION_GROWTH:
			if (level_rises(is_above, grown, limit))
				report(l, i,
				       "there are %lu goroutines, %lu more than within the "
				       "last minute",
				       l->goroutines, grown);
			break;
		case CONDITION_HEAP:
			heap = read_heap(l);
			if (level_rises(is_above, heap, limit))
				report(l, i, "the heap has %.3g MB", heap / 1048576.0);
			break;
		case CONDITION_RSS:
			check_rss(l, i);
			break;
		default:
			break;
		}
	}
}

/* ---- what lasts ---- */

static bool is_below(const char *name)
{
	return !strncmp(name, "runtime.", 8) || !strncmp(name, "sync.", 5) ||
	       !strncmp(name, "internal/", 9);
}

/* Which conditions the functions of a stack match, and its innermost function of the program. */
struct stack_match {
	uint32_t bits;
	bool is_lock;
	const char *where;
};

static void match_word(const struct looks *l, uint64_t word, struct stack_match *ret)
{
	struct go_frame frames[MOST_FRAMES];
	size_t n = pclntab_frames(&l->target->image->functions, word, frames, MOST_FRAMES);

	for (size_t i = 0; i < n; i++) {
		const char *name = frames[i].function;

		ret->is_lock |=
			strstr(name, "SemacquireMutex") || strstr(name, "SemacquireRWMutex");
		if (!*ret->where && !is_below(name))
			ret->where = name;
		for (size_t k = 0; k < l->count; k++)
			if (l->conditions[k].kind == CONDITION_WAIT && l->conditions[k].has_name &&
			    !regexec(&l->conditions[k].name, name, 0, NULL, 0))
				ret->bits |= 1u << k;
	}
}

static struct stack_match match_stack(const struct looks *l, uint32_t id)
{
	struct stack s = stacks_get(goroutine_set_stacks(l->set), id);
	struct stack_match m = {.where = ""};

	for (uint32_t i = 0; i < s.count; i++)
		match_word(l, s.pcs[i], &m);
	for (size_t k = 0; k < l->count; k++) {
		const struct condition *c = &l->conditions[k];

		if (c->kind == CONDITION_LOCK ? m.is_lock
					      : c->kind == CONDITION_WAIT && !c->has_name)
			m.bits |= 1u << k;
	}
	return m;
}

/* The bits of a stack, found once. NULL: no memory. */
static const uint64_t *bits_of(struct looks *l, uint32_t id)
{
	uint64_t *known = map_at(&l->stacks, id);

	if (known && !*known)
		*known = match_stack(l, id).bits + 1ull;
	return known;
}

/* Goroutines for which a condition became true in this look. */
struct found {
	size_t count;
	uint64_t goid; /* of the one that has waited longest */
	uint64_t ns;
	uint32_t stack;
};

static struct error *must_check find(struct looks *l, size_t i, struct found *ret)
{
	struct goroutine_record *records = goroutine_set_records(l->set);
	size_t count = goroutine_set_count(l->set);
	const struct condition *c = &l->conditions[i];
	bool runnable = c->kind == CONDITION_RUNNABLE;

	for (size_t k = 0; k < count; k++) {
		struct goroutine_record *r = &records[k];
		enum goroutine_status wanted = runnable ? G_RUNNABLE : G_WAITING;
		uint64_t ns = l->now - r->owner_since;
		const uint64_t *bits;

		if (goroutine_status(r) != wanted || ns <= c->limit || r->owner_bucket & 1u << i ||
		    r->flags & GOROUTINE_SYSTEM)
			continue;
		bits = runnable ? NULL : bits_of(l, r->stack);
		if (!runnable && !bits)
			return &error_no_memory;
		if (!runnable && !((*bits - 1) >> i & 1))
			continue;
		r->owner_bucket |= 1u << i;
		ret->count++;
		if (ns > ret->ns)
			*ret = (struct found){ret->count, r->goid, ns, r->stack};
	}
	return NULL;
}

static void report_found(struct looks *l, size_t i, const struct found *f)
{
	const char *where = match_stack(l, f->stack).where, *what = "waited";
	char more[64] = "";

	if (l->conditions[i].kind == CONDITION_LOCK)
		what = "waited for a lock";
	else if (l->conditions[i].kind == CONDITION_RUNNABLE)
		what = "been runnable";
	if (f->count > 1)
		snprintf(more, sizeof(more), ", and %zu more", f->count - 1);
	report(l, i, "goroutine %lu has %s for %.3g s%s%s%s", f->goid, what, f->ns / 1e9,
	       *where ? " in " : "", where, more);
}

static struct error *must_check check_lasting(struct looks *l)
{
	for (size_t i = 0; i < l->count; i++) {
		enum condition_kind kind = l->conditions[i].kind;
		struct found f = {0};
		struct error *err;

		if (kind != CONDITION_LOCK && kind != CONDITION_RUNNABLE && kind != CONDITION_WAIT)
			continue;
		err = find(l, i, &f);
		if (err)
			return err;
		if (f.count)
			report_found(l, i, &f);
	}
	return NULL;
}

struct error *looks_look(struct looks *l)
{
	struct error *err;

	l->now = clock_now();
	err = read_goroutines(l);
	if (err)
		return err;
	count_goroutines(l);
	check_levels(l, growth(l));
	return check_lasting(l);
}
