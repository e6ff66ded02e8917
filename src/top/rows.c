#include "top/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum match { MATCH_UNKNOWN, MATCH_NO, MATCH_YES };

/* A table's first column is its default sort key. */
static const enum top_column function_columns[] = {TOP_BY_SELF,    TOP_BY_RUNNING, TOP_BY_RUNNABLE,
						   TOP_BY_SYSCALL, TOP_BY_WAITING, TOP_BY_BLOCKED,
						   TOP_BY_NAME};
static const enum top_column wait_columns[] = {TOP_BY_BLOCKED, TOP_BY_WAITING, TOP_BY_TIME,
					       TOP_BY_NAME};
static const enum top_column goroutine_columns[] = {TOP_BY_TIME, TOP_BY_GOID, TOP_BY_STATE,
						    TOP_BY_NAME};
static const enum top_column creator_columns[] = {TOP_BY_COUNT,   TOP_BY_GROWTH,  TOP_BY_CHANGE,
						  TOP_BY_RUNNING, TOP_BY_WAITING, TOP_BY_TIME,
						  TOP_BY_NAME};
static const enum top_column label_columns[] = {TOP_BY_RUNNING, TOP_BY_RUNNABLE, TOP_BY_SYSCALL,
						TOP_BY_WAITING, TOP_BY_BLOCKED,  TOP_BY_TIME,
						TOP_BY_NAME};

#define COLUMNS(of)                \
	{                          \
		of, ARRAY_SIZE(of) \
	}
static const struct {
	const enum top_column *columns;
	size_t count;
} tables[TOP_TABLES] = {COLUMNS(function_columns), COLUMNS(wait_columns),
			COLUMNS(goroutine_columns), COLUMNS(creator_columns),
			COLUMNS(label_columns)};

const enum top_column *top_columns(enum top_table table, size_t *ret_count)
{
	*ret_count = tables[table].count;
	return tables[table].columns;
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
	case TOP_BY_BLOCKED:
		return compare_numbers(a->blocked, b->blocked);
	case TOP_BY_COUNT:
		return compare_numbers(a->count, b->count);
	case TOP_BY_GROWTH:
		return compare_numbers(a->growth, b->growth);
	case TOP_BY_CHANGE:
		return compare_numbers(a->change, b->change);
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
	case TOP_SERIES:
	case TOP_PLACE:
		break;
	}
	return 0;
}

/* Whether a row names a function, unlike "[running]" and the like. */
static bool is_named(const struct top_rows *r, const struct top_row *row)
{
	return *intern_get(&r->names->text, row->name) != '[';
}

/* Among equals, rows with larger other values come first, so that the order is stable. Rows without
 * a function's name come last. */
static int compare(const void *x, const void *y, void *arg)
{
	const struct top_row *a = x, *b = y;
	const struct top_rows *r = arg;
	int order = compare_column(r, a, b);

	if (r->table == TOP_FUNCTIONS && is_named(r, a) != is_named(r, b))
		return is_named(r, b) - is_named(r, a);

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

/* Whether the name contains the filter's text. The result is cached. */
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

struct error *top_rows_match(struct top_rows *r, const struct top_key *key, bool *ret)
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

struct error *top_rows_names(struct top_rows *r, const struct top_key *key, const uint32_t **ret,
			     uint32_t *ret_count)
{
	struct top_stack_names stack;
	struct error *err = NULL;

	*ret = &r->single;
	*ret_count = 1;
	switch (r->table) {
	case TOP_LABELS:
		*ret = r->labels;
		*ret_count = 0;
		return key->labels ? r->names->labels(r->names, key->labels, r->labels, ret_count)
				   : NULL;
	case TOP_CREATORS:
		r->single = r->names->creator(r->names, key->creator);
		return NULL;
	case TOP_WAITS:
		*ret_count = top_state_of(key->status) == TOP_WAITING;
		r->single = intern_string(&r->names->text,
					  r->names->wait_reason(r->names, key->wait_reason));
		return NULL;
	default:
		err = r->names->stack(r->names, key->stack, &stack);
		if (!err) {
			*ret = stack.functions;
			*ret_count = stack.count;
		}
		return err;
	}
}

/* Finds where most of a wait reason is: in the end its heaviest place. */
static struct error *add_place(struct top_rows *r, const struct top_key *key, double mean,
			       double blocked)
{
	struct top_stack_names stack;
	struct top_place_sum *sum;
	struct error *err = r->names->stack(r->names, key->stack, &stack);
	uint64_t *number;

	if (err)
		return err;
	number = map_at(&r->places, (uint64_t)r->single << 32 | stack.place);
	if (!number || !array_reserve(&r->place_sums, &r->place_capacity, r->place_count + 1))
		return &error_no_memory;
	if (!*number) {
		r->place_sums[r->place_count] =
			(struct top_place_sum){r->single, stack.place, 0, 0};
		*number = ++r->place_count;
	}
	sum = &r->place_sums[*number - 1];
	sum->blocked += blocked;
	sum->waiting += mean;
	return NULL;
}

static void choose_places(struct top_rows *r)
{
	for (size_t i = 0; i < r->place_count; i++) {
		const struct top_place_sum *sum = &r->place_sums[i];
		struct top_row *row = &r->items[r->row_of[sum->reason] - 1];

		if (row->place &&
		    (sum->blocked < row->place_blocked ||
		     (sum->blocked == row->place_blocked && sum->waiting <= row->place_waiting)))
			continue;
		row->place = sum->place;
		row->place_blocked = sum->blocked;
		row->place_waiting = sum->waiting;
	}
}

static struct error *add_key(struct top_rows *r, const struct top_key *key, double mean)
{
	enum top_state state = top_state_of(key->status);
	double blocked = state == TOP_WAITING && !r->names->awaits_work(r->names, key) ? mean : 0;
	struct error *err;
	const uint32_t *names;
	uint32_t count = 0;
	bool match = false;

	r->totals[state] += mean;
	r->total_blocked += blocked;
	err = top_rows_match(r, key, &match);
	if (!err && match)
		err = top_rows_names(r, key, &names, &count);
	for (uint32_t i = 0; !err && i < count; i++) {
		struct top_row *row = row_named(r, names[i]);

		if (!row)
			return &error_no_memory;
		row->states[state] += mean;
		row->blocked += blocked;
		row->self += state == TOP_RUNNING && !i ? mean : 0;
	}
	if (!err && count && r->table == TOP_WAITS)
		err = add_place(r, key, mean, blocked);
	return err;
}

enum moment { MOMENT_FIRST, MOMENT_OLDEST, MOMENT_LAST };

/* Adds the goroutines of a creator at this time. */
static struct error *add_count(struct top_rows *r, const struct top_key *key, double count,
			       enum moment moment)
{
	bool match = false;
	struct error *err = top_rows_match(r, key, &match);
	struct top_row *row;

	if (err || !match)
		return err;
	row = row_named(r, r->names->creator(r->names, key->creator));
	if (!row)
		return &error_no_memory;
	if (moment == MOMENT_LAST) {
		row->count += count;
		row->growth += count;
		row->change += count;
	} else if (moment == MOMENT_FIRST) {
		row->growth -= count;
	} else {
		row->change -= count;
	}
	return NULL;
}

static struct error *add_interval_counts(struct top_rows *r, const struct top_interval *interval,
					 enum moment moment)
{
	struct error *err = NULL;

	for (size_t i = 0; interval && !err && i < interval->count; i++)
		err = add_count(r, &r->model->keys[interval->items[i].key],
				(double)interval->items[i].total.ns / interval->ns, moment);
	return err;
}

static struct error *add_counts(struct top_rows *r)
{
	const struct top_model *m = r->model;
	size_t intervals = top_model_intervals(m);
	struct error *err = NULL;

	for (size_t i = 0; !err && i < m->first_count; i++)
		err = add_count(r, &m->first_items[i].key,
				(double)m->first_items[i].ns / m->first_ns, MOMENT_FIRST);
	if (!err && intervals)
		err = add_interval_counts(r, top_model_interval(m, intervals - 1), MOMENT_OLDEST);
	return err ? err : add_interval_counts(r, top_model_interval(m, 0), MOMENT_LAST);
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

static void clear(struct top_rows *r)
{
	for (size_t i = 0; i < r->row_of_capacity; i++)
		r->row_of[i] = 0;
	r->count = r->goroutines = r->left_out = r->place_count = 0;
	memset(r->totals, 0, sizeof(r->totals));
	r->total_blocked = 0;
	r->bounded = false;
	map_release(&r->places);
	r->places = (struct map){0};
}

struct error *top_rows_begin(struct top_rows *r, const struct top_model *m, struct top_names *names)
{
	struct error *err;

	r->names = names;
	r->model = m;
	clear(r);
	err = take_filter(r);
	if (r->table == TOP_GOROUTINES)
		return err;
	for (size_t i = 1; !err && i <= m->key_count; i++)
		if (m->totals[i].ns)
			err = add_key(r, &m->keys[i], top_model_mean(m, m->totals[i].ns));
	if (!err && r->table == TOP_CREATORS)
		err = add_counts(r);
	choose_places(r);
	return err;
}

bool top_rows_want_goroutines(const struct top_rows *r)
{
	return r->table != TOP_FUNCTIONS;
}

/* Keeps only the first rows, now and then; rows beyond them need not be added any more. */
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

/* Adds the longest wait to a row, which may exist already. */
static struct error *add_wait(struct top_rows *r, uint32_t name, uint64_t time)
{
	struct top_row *row = row_named(r, name);

	if (!row)
		return &error_no_memory;
	if (row->time < time)
		row->time = time;
	return NULL;
}

struct error *top_rows_add_goroutine(struct top_rows *r, const struct top_goroutine *g)
{
	uint64_t time = r->now > g->since ? r->now - g->since : 0;
	const uint32_t *names;
	uint32_t count = 0;
	bool match = false;
	struct error *err;

	if (r->table != TOP_GOROUTINES && top_state_of(g->key.status) != TOP_WAITING)
		return NULL;
	err = top_rows_match(r, &g->key, &match);
	if (err || !match)
		return err;
	if (r->table == TOP_GOROUTINES)
		return add_goroutine_row(r, g, time);
	err = top_rows_names(r, &g->key, &names, &count);
	for (uint32_t i = 0; !err && i < count; i++)
		err = add_wait(r, names[i], time);
	return err;
}

/* The least values for which a row is shown: goroutines, and the share of all in that state. */
#define LEAST_MEAN 0.0005
#define LEAST_PART 0.001
#define LEAST_COUNT 0.5

static bool is_worth_a_row(const struct top_rows *r, const struct top_row *row)
{
	if (row->time || row->count >= LEAST_COUNT || row->blocked >= LEAST_COUNT ||
	    fabs(row->growth) >= LEAST_COUNT || fabs(row->change) >= LEAST_COUNT)
		return true;
	/* On-CPU samples of goroutines that memory never showed have no creator. */
	if (r->table == TOP_CREATORS)
		return false;
	for (size_t i = 0; i < TOP_STATES; i++)
		if (row->states[i] >= LEAST_MEAN && row->states[i] >= LEAST_PART * r->totals[i])
			return true;
	return false;
}

static void leave_out_nothings(struct top_rows *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++)
		if (is_worth_a_row(r, &r->items[i]))
			r->items[kept++] = r->items[i];
	r->left_out = r->count - kept;
	r->count = kept;
}

void top_rows_finish(struct top_rows *r)
{
	if (r->table != TOP_GOROUTINES && !*r->filter)
		leave_out_nothings(r);
	cut(r);
}

void top_rows_release(struct top_rows *r)
{
	free(r->items);
	free(r->row_of);
	free(r->matches);
	free(r->matched);
	free(r->place_sums);
	map_release(&r->places);
	*r = (struct top_rows){0};
}
