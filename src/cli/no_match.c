#include "cli/no_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/name_tally.h"

bool filter_is_set(const struct gospect_filter *f)
{
	return f->goroutine || f->wait || f->function || f->label || f->states;
}

/* Adds the options of the filter, as the user typed them. */
static void describe_filter(const struct gospect_filter *f, struct strbuf *to)
{
	if (f->goroutine)
		strbuf_addf(to, " -g %lu", f->goroutine);
	for (uint32_t i = GOSPECT_RUNNING; f->states && i <= GOSPECT_WAITING; i++)
		if (f->states & 1u << i)
			strbuf_addf(to, " --state %s", gospect_state_name(i));
	if (f->wait)
		strbuf_addf(to, " --wait '%s'", f->wait);
	if (f->function)
		strbuf_addf(to, " --func '%s'", f->function);
	if (f->label)
		strbuf_addf(to, " --label '%s'", f->label);
}

static void describe_labels_of(const struct gospect_goroutine *const *all, size_t count,
			       const char *filter, struct strbuf *to)
{
	_cleanup_free_ const struct gospect_label **labels = NULL;
	size_t n = 0, capacity = 0;

	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < all[i]->label_count; j++)
			if (array_reserve(&labels, &capacity, n + 1))
				labels[n++] = &all[i]->labels[j];
	describe_labels(labels, n, filter, to);
}

static const char *start_function(const struct gospect_goroutine *g)
{
	const struct gospect_stack *s = g->stack;

	return s && s->count ? s->frames[s->count - 1]->function : "";
}

/* Lists the existing values for each option of the filter. */
static void describe_all(const struct gospect_goroutine *const *all, size_t count,
			 const struct gospect_filter *f, struct strbuf *to)
{
	_cleanup_tally_ struct tally states = {0}, waits = {0}, starts = {0};

	for (size_t i = 0; i < count; i++) {
		tally_add(&states, gospect_state_name(all[i]->state));
		if (*all[i]->wait_reason)
			tally_add(&waits, all[i]->wait_reason);
		if (*start_function(all[i]))
			tally_add(&starts, start_function(all[i]));
	}
	if (f->states)
		tally_describe(&states, "states", to);
	if (f->wait)
		tally_describe(&waits, "wait reasons", to);
	if (f->function)
		tally_describe(&starts, "start functions", to);
	if (f->label)
		describe_labels_of(all, count, f->label, to);
}

static void cleanup_snapshot(struct gospect_snapshot **s)
{
	gospect_snapshot_destroy(*s);
}

struct error *no_match(struct gospect_target *target, const struct gospect_filter *filter,
		       bool system)
{
	const struct gospect_snapshot_options how = {.size = sizeof(how), .system = system};
	_cleanup_(cleanup_snapshot) struct gospect_snapshot *snapshot = NULL;
	_cleanup_strbuf_ struct strbuf wanted = STRBUF_INIT, there = STRBUF_INIT;
	const struct gospect_goroutine *const *all = NULL;
	size_t count = 0;
	struct error *err;

	describe_filter(filter, &wanted);
	err = library_error(gospect_snapshot_take(target, &how, &snapshot));
	if (!err)
		err = library_error(gospect_snapshot_goroutines(snapshot, &all, &count));
	if (err) {
		error_destroy(err);
		return error_format(ERROR_FAILED, "no goroutine matched%s", wanted.data);
	}
	describe_all(all, count, filter, &there);
	return error_format(ERROR_FAILED, "0 of %zu goroutines match%s%s", count, wanted.data,
			    there.data);
}
