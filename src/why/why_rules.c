#include "why/why_rules.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "why/rule.h"
#include "why/thresholds.h"

static void draft_release(struct draft *d)
{
	strbuf_release(&d->sentence);
	strbuf_release(&d->evidence);
	strbuf_release(&d->next);
}

/* ---- all of them ---- */

/* In the order in which findings of one severity are told: a cause before what it causes. */
static const struct rule {
	const char *kind;
	enum why_severity severity; /* unless the finding has its own */
	bool (*find)(const struct why_numbers *n, struct draft *d);
} rules[] = {
	{"deadlock", WHY_CRITICAL, why_find_deadlock},
	{"stopped", WHY_CRITICAL, why_find_stopped},
	{"stuck_lock", WHY_CRITICAL, why_find_stuck_lock},
	{"memory_limit", WHY_SERIOUS, why_find_limit},
	{"throttled", WHY_SERIOUS, why_find_throttled},
	{"gc_thrash", WHY_SERIOUS, why_find_gc},
	{"timer_storm", WHY_SERIOUS, why_find_timers},
	{"hot_loop", WHY_SERIOUS, why_find_spin},
	{"goroutine_leak", WHY_SERIOUS, why_find_leak},
	{"memory_growth", WHY_SERIOUS, why_find_growth},
	{"lock_convoy", WHY_SERIOUS, why_find_lock},
	{"pool_exhausted", WHY_SERIOUS, why_find_pool},
	{"slow_disk", WHY_SERIOUS, why_find_disk},
	{"slow_peer", WHY_SERIOUS, why_find_peer},
	{"queue_full", WHY_SERIOUS, why_find_queue},
	{"cpu_shortage", WHY_SERIOUS, why_find_ready},
	{"steal", WHY_MINOR, why_find_steal},
	{"nothing_runs", WHY_MINOR, why_find_quiet},
	{"goroutine_crowd", WHY_MINOR, why_find_crowd},
};

const char *why_severity_name(enum why_severity severity)
{
	return severity == WHY_CRITICAL  ? "critical"
	       : severity == WHY_SERIOUS ? "serious"
					 : "minor";
}

static struct error *must_check keep(struct why_findings *f, const struct rule *rule,
				     const struct draft *d)
{
	struct why_finding *item;

	if (d->sentence.failed || d->evidence.failed || d->next.failed ||
	    !array_reserve(&f->items, &f->capacity, f->count + 1))
		return &error_no_memory;
	item = &f->items[f->count++];
	*item = (struct why_finding){.kind = rule->kind,
				     .severity = d->severity,
				     .sentence = strdup(d->sentence.data),
				     .evidence = strdup(d->evidence.data),
				     .next = strdup(d->next.data)};
	return item->sentence && item->evidence && item->next ? NULL : &error_no_memory;
}

/* Insertion keeps the order of the table within a severity. */
static void sort(struct why_findings *f)
{
	for (size_t i = 1; i < f->count; i++)
		for (size_t k = i; k && f->items[k].severity < f->items[k - 1].severity; k--) {
			struct why_finding higher = f->items[k];

			f->items[k] = f->items[k - 1];
			f->items[k - 1] = higher;
		}
}

static struct error *must_check say_unknown(struct why_findings *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static struct error *say_unknown(struct why_findings *f, const char *format, ...)
{
	va_list args;
	int n;

	if (!array_reserve(&f->unknown, &f->unknown_capacity, f->unknown_count + 1))
		return &error_no_memory;
	va_start(args, format);
	n = vasprintf(&f->unknown[f->unknown_count], format, args);
	va_end(args);
	if (n < 0)
		return &error_no_memory;
	f->unknown_count++;
	return NULL;
}

static struct error *must_check say_what_is_unknown(const struct why_numbers *n,
						    struct why_findings *f)
{
	if (n->is_core)
		return say_unknown(f, "growth, CPU time and how long waits take: a core file is "
				      "a single moment");
	if (n->cpu.unsampled)
		return say_unknown(f,
				   "which functions use the CPU, the garbage collector's part "
				   "and that of timers: %s",
				   n->cpu.unsampled);
	if (n->cpu.samples < LEAST_SAMPLES && n->running + n->ready >= STARVED_RUNNING)
		return say_unknown(f,
				   "which functions use the CPU, the garbage collector's part "
				   "and that of timers: the process got so little CPU time that "
				   "there are only %.0f samples; look for longer (-d)",
				   n->cpu.samples);
	return NULL;
}

struct error *why_find(const struct why_numbers *n, struct why_findings *ret)
{
	_cleanup_why_findings_ struct why_findings f = {0};
	struct error *err = say_what_is_unknown(n, &f);

	for (size_t i = 0; !err && i < ARRAY_SIZE(rules); i++) {
		_cleanup_(draft_release) struct draft d = {STRBUF_INIT, STRBUF_INIT, STRBUF_INIT,
							   rules[i].severity};

		if (rules[i].find(n, &d))
			err = keep(&f, &rules[i], &d);
	}
	if (err)
		return err;
	sort(&f);
	*ret = f;
	f = (struct why_findings){0};
	return NULL;
}

void why_findings_release(struct why_findings *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->items[i].sentence);
		free(f->items[i].evidence);
		free(f->items[i].next);
	}
	for (size_t i = 0; i < f->unknown_count; i++)
		free(f->unknown[i]);
	free(f->items);
	free(f->unknown);
	*f = (struct why_findings){0};
}
