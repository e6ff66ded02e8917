#include "cli/name_tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The most names in a message, and the most bytes of a name. */
enum { MAX_LISTED = 10, MAX_NAME = 60 };

void cleanup_tally(struct tally *t)
{
	free(t->items);
}
void tally_add(struct tally *t, const char *name)
{
	for (size_t i = 0; i < t->count; i++) {
		if (strcmp(t->items[i].name, name))
			continue;
		t->items[i].count++;
		return;
	}
	/* A hostile target may have a different label in each goroutine. */
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

void tally_describe(struct tally *t, const char *what, struct strbuf *to)
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

/* Whether the filter, "KEY=VALUE" or "KEY", has this key. */
static bool is_key(const char *key, const char *filter)
{
	size_t n = strcspn(filter, "=");

	return strlen(key) == n && !strncmp(key, filter, n);
}

void describe_labels(const struct gospect_label *const *labels, size_t count, const char *filter,
		     struct strbuf *to)
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
