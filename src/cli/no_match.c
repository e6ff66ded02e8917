#include "cli/no_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"

/* Names that a message lists at most, and bytes of each. */
enum { MAX_LISTED = 10, MAX_NAME = 60 };

/* Different names and how often each was seen; the names are somebody else's. */
struct tally {
	struct counted {
		const char *name;
		size_t count;
	} * items;
	size_t count;
	size_t capacity;
};

static void cleanup_tally(struct tally *t)
{
	free(t->items);
}
#define _cleanup_tally_ _cleanup_(cleanup_tally)

/* Few names are different: wait reasons, labels. Values without memory for them are not listed. */
static void tally_add(struct tally *t, const char *name)
{
	for (size_t i = 0; i < t->count; i++) {
		if (strcmp(t->items[i].name, name))
			continue;
		t->items[i].count++;
		return;
	}
	/* A hostile target may have a label a goroutine. */
	if (t->count < 1000 && array_reserve(&t->items, &t->capacity, t->count + 1))
		t->items[t->count++] = (struct counted){name, 1};
}

static int by_count(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* "; WHAT are: a, b and 7 more", most frequent first; "; there are no WHAT". */
static void tally_describe(struct tally *t, const char *what, struct strbuf *to)
{
	if (!t->count) {
		strbuf_addf(to, "; there are no %s", what);
		return;
	}
	qsort(t->items, t->count, sizeof(t->items[0]), by_count);
	strbuf_addf(to, "; %s are: ", what);
	for (size_t i = 0; i < t->count && i < MAX_LISTED; i++)
		strbuf_addf(to, "%s%.*s", i ? ", " : "", MAX_NAME, t->items[i].name);
	if (t->count > MAX_LISTED)
		strbuf_addf(to, " and %zu more", t->count - MAX_LISTED);
}

bool filter_is_set(const struct gospect_filter *f)
{
	return f->goroutine || f->wait || f->function || f->label || f->states;
}

/* As the user gave it. */
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

/* The key of "key=value", or all of it. */
static bool is_key(const char *key, const char *filter)
{
	size_t n = strcspn(filter, "=");

	return strlen(key) == n && !strncmp(key, filter, n);
}

/* The values of the wanted key, if it has a value and somebody has the key; else the keys. */
static void describe_labels(const struct gospect_label *const *labels, size_t count,
			    const char *filter, struct strbuf *to)
{
	_cleanup_tally_ struct tally keys = {0}, values = {0};
	char what[80];

	for (size_t i = 0; i < count; i++) {
		tally_add(&keys, labels[i]->key);
		if (is_key(labels[i]->key, filter))
			tally_add(&values, labels[i]->value);
	}
	if (values.count && strchr(filter, '=')) {
		snprintf(what, sizeof(what), "values of %.*s",
			 (int)(strcspn(filter, "=") < MAX_NAME ? strcspn(filter, "=") : MAX_NAME),
			 filter);
		tally_describe(&values, what, to);
	} else {
		tally_describe(&keys, "labels", to);
	}
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

/* The existing values, for each filter. */
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

struct error *no_label(struct gospect_profile *profile, const char *path, const char *label,
		       const char *value)
{
	_cleanup_free_ const struct gospect_label **labels = NULL;
	_cleanup_strbuf_ struct strbuf wanted = STRBUF_INIT, there = STRBUF_INIT;
	const struct gospect_sample *const *samples = NULL;
	size_t count = 0, n = 0, capacity = 0;
	struct error *err = library_error(gospect_profile_samples(profile, &samples, &count));

	if (err)
		return err;
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < samples[i]->label_count; j++)
			if (array_reserve(&labels, &capacity, n + 1))
				labels[n++] = &samples[i]->labels[j];
	strbuf_addf(&wanted, "%s%s%s", label, value ? "=" : "", value ? value : "");
	describe_labels(labels, n, wanted.data, &there);
	return error_format(ERROR_FAILED, "no sample in %s has the label %s%s", path, wanted.data,
			    there.data);
}
