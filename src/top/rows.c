#include "top/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum match { MATCH_UNKNOWN, MATCH_NO, MATCH_YES };

const enum top_column *top_columns(enum top_table table, size_t *ret_count)
{
	static const enum top_column functions[] = {TOP_BY_SELF,    TOP_BY_RUNNING, TOP_BY_RUNNABLE,
						    TOP_BY_SYSCALL, TOP_BY_WAITING, TOP_BY_NAME};
	static const enum top_column goroutines[] = {TOP_BY_TIME, TOP_BY_GOID, TOP_BY_STATE,
						     TOP_BY_NAME};
	static const enum top_column groups[] = {TOP_BY_RUNNING, TOP_BY_RUNNABLE, TOP_BY_SYSCALL,
						 TOP_BY_WAITING, TOP_BY_TIME,     TOP_BY_NAME};

	switch (table) {
	case TOP_FUNCTIONS:
		*ret_count = ARRAY_SIZE(functions);
		return functions;
	case TOP_GOROUTINES:
		*ret_count = ARRAY_SIZE(goroutines);
		return goroutines;
	default:
		*ret_count = ARRAY_SIZE(groups);
		return groups;
	}
}

/* Largest first, except for names and the like. */
static int compare_numbers(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare_states(const struct top_goroutine *a, const struct top_goroutine *b)
{
	int order = top_state_of(a->key.status) - top_state_of(b->key.status);

	return order ? order : a->key.wait_reason - b->key.wait_reason;
}

static int compare_column(const struct top_rows *r, const struct top_row *a,
			  const struct top_row *b)
{
	switch (r->sort) {
	case TOP_BY_SELF:
		return compare_numbers(a->self, b->self);
	case TOP_BY_RUNNING:
	case TOP_BY_RUNNABLE:
	case TOP_BY_SYSCALL:
	case TOP_BY_WAITING:
		return compare_numbers(a->states[r->sort - TOP_BY_RUNNING],
				       b->states[r->sort - TOP_BY_RUNNING]);
	case TOP_BY_TIME:
		return (a->time < b->time) - (a->time > b->time);
	case TOP_BY_GOID:
		return (a->goroutine.goid > b->goroutine.goid) -
		       (a->goroutine.goid < b->goroutine.goid);
	case TOP_BY_STATE:
		return compare_states(&a->goroutine, &b->goroutine);
	case TOP_BY_NAME:
		return strcmp(intern_get(&r->names->text, a->name),
			      intern_get(&r->names->text, b->name));
	}
	return 0;
}

/* Among equals, rows with larger other values come first, so that rows do not jump about. */
static int compare(const void *x, const void *y, void *arg)
{
	const struct top_row *a = x, *b = y;
	const struct top_rows *r = arg;
	int order = compare_column(r, a, b);

	if (order)
		return r->reverse ? -order : order;
	for (size_t i = 0; !order && i < TOP_STATES; i++)
		order = compare_numbers(a->states[i], b->states[i]);
	if (!order)
		order = (a->goroutine.goid > b->goroutine.goid) -
			(a->goroutine.goid < b->goroutine.goid);
	return order ? order : (a->name > b->name) - (a->name < b->name);
}

static bool has_text(const struct top_rows *r, const char *text)
{
	if (*r->filter == '=')
		return !strcmp(text, r->filter + 1);
	return strcasestr(text, r->filter) != NULL;
}

/* Whether the filter's text is in this name; looked for once. */
static bool name_matches(struct top_rows *r, uint32_t name)
{
	uint8_t *match;

	if (!array_reserve(&r->matches, &r->matches_capacity, r->names->text.count + 1))
		return false;
	match = &r->matches[name];
	if (*match == MATCH_UNKNOWN)
		*match = has_text(r, intern_get(&r->names->text, name)) ? MATCH_YES : MATCH_NO;
	return *match == MATCH_YES;
}

static struct error *labels_match(struct top_rows *r, uint32_t labels, bool *ret)
{
	uint32_t found[TOP_MAX_LABELS], count;
	struct error *err = labels ? r->names->labels(r->names, labels, found, &count) : NULL;

	for (uint32_t i = 0; !err && labels && !*ret && i < count; i++)
		*ret = name_matches(r, found[i]);
	return err;
}

static struct error *stack_matches(struct top_rows *r, uint32_t id, bool *ret)
{
	struct top_stack_names stack;
	struct error *err = r->names->stack(r->names, id, &stack);

	for (uint32_t i = 0; !err && !*ret && i < stack.count; i++)
		*ret = name_matches(r, stack.functions[i]);
	return err;
}

static struct error *matches(struct top_rows *r, const struct top_key *key, bool *ret)
{
	enum top_state state = top_state_of(key->status);
	struct error *err = NULL;
	uint32_t creator;

	*ret = !*r->filter || has_text(r, top_state_name(state)) ||
	       (state == TOP_WAITING &&
		has_text(r, r->names->wait_reason(r->names, key->wait_reason)));
	if (!*ret)
		err = stack_matches(r, key->stack, ret);
	if (err || *ret)
		return err;
	creator = r->names->creator(r->names, key->creator);
	if (creator == INTERN_FAILED)
		return &error_no_memory;
	*ret = name_matches(r, creator);
	return labels_match(r, key->labels, ret);
}

static struct top_row *row_named(struct top_rows *r, uint32_t name)
{
	if (name == INTERN_FAILED ||
	    !array_reserve(&r->row_of, &r->row_of_capacity, r->names->text.count + 1) ||
	    !array_reserve(&r->items, &r->capacity, r->count + 1))
		return NULL;
	if (!r->row_of[name]) {
		r->items[r->count] = (struct top_row){.name = name};
		r->row_of[name] = ++r->count;
	}
	return &r->items[r->row_of[name] - 1];
}

static struct error *add_to(struct top_rows *r, uint32_t name, enum top_state state, double mean,
			    bool self)
{
	struct top_row *row = row_named(r, name);

	if (!row)
		return &error_no_memory;
	row->states[state] += mean;
	row->self += self ? mean : 0;
	return NULL;
}

static struct error *add_labels(struct top_rows *r, const struct top_key *key, double mean)
{
	uint32_t found[TOP_MAX_LABELS], count = 0;
	struct error *err = NULL;

	if (key->labels)
		err = r->names->labels(r->names, key->labels, found, &count);
	for (uint32_t i = 0; !err && i < count; i++)
		err = add_to(r, found[i], top_state_of(key->status), mean, false);
	return err;
}

static struct error *add_functions(struct top_rows *r, const struct top_key *key, double mean)
{
	enum top_state state = top_state_of(key->status);
	struct top_stack_names stack;
	struct error *err = r->names->stack(r->names, key->stack, &stack);

	for (uint32_t i = 0; !err && i < stack.count; i++)
		err = add_to(r, stack.functions[i], state, mean, state == TOP_RUNNING && !i);
	return err;
}

static struct error *add_key(struct top_rows *r, const struct top_key *key, double mean)
{
	bool match = false;
	struct error *err = matches(r, key, &match);

	if (err || !match)
		return err;
	if (r->table == TOP_LABELS)
		return add_labels(r, key, mean);
	if (r->table == TOP_CREATORS)
		return add_to(r, r->names->creator(r->names, key->creator),
			      top_state_of(key->status), mean, false);
	return add_functions(r, key, mean);
}

static struct error *take_filter(struct top_rows *r)
{
	if (r->matched && !strcmp(r->matched, r->filter))
		return NULL;
	if (r->matches)
		memset(r->matches, MATCH_UNKNOWN, r->matches_capacity);
	free(r->matched);
	r->matched = strdup(r->filter);
	return r->matched ? NULL : &error_no_memory;
}

struct error *top_rows_begin(struct top_rows *r, const struct top_model *m, struct top_names *names)
{
	struct error *err;

	r->names = names;
	for (size_t i = 0; i < r->row_of_capacity; i++)
		r->row_of[i] = 0;
	r->count = r->goroutines = 0;
	r->bounded = false;
	err = take_filter(r);
	if (r->table == TOP_GOROUTINES)
		return err;
	for (size_t i = 1; !err && i <= m->key_count; i++)
		if (m->totals[i].ns)
			err = add_key(r, &m->keys[i], top_model_mean(m, m->totals[i].ns));
	return err;
}

bool top_rows_want_goroutines(const struct top_rows *r)
{
	return r->table != TOP_FUNCTIONS;
}

/* Keeps the first rows, now and then; later rows need not be added any more. */
static void cut(struct top_rows *r)
{
	if (r->count)
		qsort_r(r->items, r->count, sizeof(*r->items), compare, r);
	if (r->count < TOP_MAX_GOROUTINES)
		return;
	r->count = TOP_MAX_GOROUTINES;
	r->bound = r->items[r->count - 1];
	r->bounded = true;
}

static struct error *add_goroutine_row(struct top_rows *r, const struct top_goroutine *g,
				       uint64_t time)
{
	struct top_row row = {.time = time, .goroutine = *g};
	struct top_stack_names stack;
	struct error *err;

	r->goroutines++;
	if (r->bounded && r->sort != TOP_BY_NAME && compare(&r->bound, &row, r) <= 0)
		return NULL;
	err = r->names->stack(r->names, g->key.stack, &stack);
	if (err)
		return err;
	row.name = stack.place;
	if (!array_reserve(&r->items, &r->capacity, r->count + 1))
		return &error_no_memory;
	r->items[r->count++] = row;
	if (r->count == 2 * TOP_MAX_GOROUTINES)
		cut(r);
	return NULL;
}

/* The longest wait, in a row that there may be already. */
static struct error *add_wait(struct top_rows *r, uint32_t name, uint64_t time)
{
	struct top_row *row = row_named(r, name);

	if (!row)
		return &error_no_memory;
	if (row->time < time)
		row->time = time;
	return NULL;
}

static struct error *add_label_waits(struct top_rows *r, uint32_t labels, uint64_t time)
{
	uint32_t found[TOP_MAX_LABELS], count = 0;
	struct error *err = labels ? r->names->labels(r->names, labels, found, &count) : NULL;

	for (uint32_t i = 0; !err && i < count; i++)
		err = add_wait(r, found[i], time);
	return err;
}

struct error *top_rows_add_goroutine(struct top_rows *r, const struct top_goroutine *g)
{
	uint64_t time = r->now > g->since ? r->now - g->since : 0;
	bool match = false;
	struct error *err;

	if (r->table != TOP_GOROUTINES && top_state_of(g->key.status) != TOP_WAITING)
		return NULL;
	err = matches(r, &g->key, &match);
	if (err || !match)
		return err;
	if (r->table == TOP_GOROUTINES)
		return add_goroutine_row(r, g, time);
	if (r->table == TOP_LABELS)
		return add_label_waits(r, g->key.labels, time);
	return add_wait(r, r->names->creator(r->names, g->key.creator), time);
}

void top_rows_finish(struct top_rows *r)
{
	cut(r);
}

void top_rows_release(struct top_rows *r)
{
	free(r->items);
	free(r->row_of);
	free(r->matches);
	free(r->matched);
	*r = (struct top_rows){0};
}
