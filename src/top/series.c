#include "top/series.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* A range of `lists`. */
struct top_key_rows {
	uint32_t first;
	uint32_t count;
};

/* Whether this key counts in the row of the name with index `at`. */
static bool counts(const struct top_rows *r, const struct top_key *key, uint32_t at)
{
	enum top_state state = top_state_of(key->status);

	switch (r->sort) {
	case TOP_BY_SELF:
		return state == TOP_RUNNING && !at;
	case TOP_BY_RUNNING:
	case TOP_BY_RUNNABLE:
	case TOP_BY_SYSCALL:
	case TOP_BY_WAITING:
		return state == (enum top_state)(r->sort - TOP_BY_RUNNING);
	case TOP_BY_BLOCKED:
		return state == TOP_WAITING && !r->names->awaits_work(r->names, key);
	default:
		return true;
	}
}

static struct error *list_rows(struct top_series *s, struct top_rows *r, uint32_t id)
{
	const struct top_key *key = &r->model->keys[id];
	struct top_key_rows *of = &s->keys[id];
	const uint32_t *names;
	uint32_t count = 0;
	bool match = false;
	struct error *err = top_rows_match(r, key, &match);

	if (!err && match)
		err = top_rows_names(r, key, &names, &count);
	*of = (struct top_key_rows){s->list_count, 0};
	for (uint32_t i = 0; !err && i < count; i++) {
		if (names[i] >= s->shown_capacity || !s->shown[names[i]] || !counts(r, key, i))
			continue;
		if (!array_reserve(&s->lists, &s->list_capacity, s->list_count + 1))
			return &error_no_memory;
		s->lists[s->list_count++] = s->shown[names[i]] - 1;
		of->count++;
	}
	return err;
}

static void add_interval(struct top_series *s, const struct top_interval *interval, size_t back)
{
	for (size_t i = 0; i < interval->count; i++) {
		const struct top_amount *a = &interval->items[i];
		const struct top_key_rows *of = &s->keys[a->key];

		for (uint32_t k = of->first; k < of->first + of->count; k++)
			s->rows[s->lists[k]][back] += (double)a->total.ns / interval->ns;
	}
}

static struct error *prepare(struct top_series *s, const struct top_rows *r)
{
	if (!array_reserve(&s->rows, &s->capacity, s->count + 1) ||
	    !array_reserve(&s->shown, &s->shown_capacity, r->names->text.count + 1) ||
	    !array_reserve(&s->keys, &s->key_capacity, r->model->key_count + 1))
		return &error_no_memory;
	memset(s->rows, 0, s->count * sizeof(*s->rows));
	memset(s->shown, 0, s->shown_capacity * sizeof(*s->shown));
	for (size_t i = 0; i < s->count; i++)
		s->shown[r->items[s->first + i].name] = i + 1;
	s->list_count = 0;
	return NULL;
}

struct error *top_series_make(struct top_series *s, struct top_rows *r, size_t first, size_t count)
{
	struct error *err;

	s->first = first;
	s->count = first < r->count ? r->count - first : 0;
	s->count = s->count < count ? s->count : count;
	s->intervals = r->model ? top_model_intervals(r->model) : 0;
	if (r->table == TOP_GOROUTINES || !s->count)
		s->count = s->intervals = 0;
	if (!s->intervals)
		return NULL;
	err = prepare(s, r);
	for (uint32_t i = 1; !err && i <= r->model->key_count; i++)
		err = list_rows(s, r, i);
	for (size_t i = 0; !err && i < s->intervals; i++)
		add_interval(s, top_model_interval(r->model, i), i);
	return err;
}

void top_series_release(struct top_series *s)
{
	free(s->rows);
	free(s->shown);
	free(s->keys);
	free(s->lists);
	*s = (struct top_series){0};
}
