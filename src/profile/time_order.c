#include "profile/time_order.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

/* The most words in the stacks of all pieces: some 30 MB of speedscope's JSON. */
#define MOST_WORDS (1u << 22)

struct making {
	const struct profile *profile;
	struct timeline_step *steps;
	size_t step_count;
	uint32_t joined; /* how many columns of the timeline make one of the order */
	uint64_t words;
	struct time_order *order;
};

static uint64_t value_of(const struct making *m, uint32_t row)
{
	const struct profile_sample *sample = &m->profile->samples[row];

	return m->order->timed ? sample->wall_ns : sample->count;
}

/* False: there is no memory. */
static bool add_piece(struct making *m, struct time_piece piece)
{
	struct time_order *o = m->order;

	if (!piece.value)
		return true;
	if (!array_reserve(&o->pieces, &o->capacity, o->count + 1))
		return false;
	m->words += m->profile->samples[piece.row].depth + 1;
	o->pieces[o->count++] = piece;
	return true;
}

static double time_of(const struct timeline_step *steps, size_t count)
{
	double time = 0;

	for (size_t i = 0; i + 1 < count; i++)
		time += (double)steps[i].ns * (steps[i + 1].column - steps[i].column);
	return time;
}

static bool is_over(const struct making *m)
{
	return m->words > MOST_WORDS && m->joined < m->profile->timeline.columns;
}

/* The parts of a row: its value is divided in proportion to the time in its columns. */
struct parts {
	uint64_t value;
	uint64_t given;
	double time; /* of the row */
	double seen; /* the part before the current piece */
	struct time_piece piece;
};

/* Adds the piece that ends here. The last piece takes the rest of the value. */
static bool end_piece(struct making *m, struct parts *parts, bool is_last)
{
	double share = (double)parts->value * (parts->seen / parts->time);
	uint64_t upto = share < (double)parts->value ? (uint64_t)(share + 0.5) : parts->value;

	if (is_last || upto > parts->value)
		upto = parts->value;
	parts->piece.value = upto > parts->given ? upto - parts->given : 0;
	parts->given += parts->piece.value;
	return add_piece(m, parts->piece);
}

static bool add_run(struct making *m, struct parts *parts, const struct timeline_step *step,
		    uint32_t end)
{
	for (uint32_t from = step->column; step->ns && from < end && !is_over(m);) {
		uint32_t column = from / m->joined, next = (column + 1) * m->joined;

		next = next < end ? next : end;
		if (column != parts->piece.column && !end_piece(m, parts, false))
			return false;
		parts->piece.column = column;
		parts->seen += (double)step->ns * (next - from);
		from = next;
	}
	return true;
}

static bool add_row(struct making *m, uint32_t row, const struct timeline_step *steps, size_t count)
{
	struct parts parts = {.value = value_of(m, row),
			      .time = time_of(steps, count),
			      .piece = {.row = row}};
	size_t first = 0;

	if (!(parts.time > 0))
		return add_piece(m, (struct time_piece){0, row, parts.value});
	while (!steps[first].ns)
		first++;
	parts.piece.column = steps[first].column / m->joined;
	for (size_t i = first; i + 1 < count; i++)
		if (!add_run(m, &parts, &steps[i], steps[i + 1].column))
			return false;
	return end_piece(m, &parts, true);
}

/* Adds the pieces of all rows, or stops when there are too many. */
static struct error *must_check add_rows(struct making *m)
{
	size_t at = 0;

	m->order->count = m->words = 0;
	for (uint32_t row = 0; row < m->profile->count && !is_over(m); row++) {
		size_t first = at;

		while (at < m->step_count && m->steps[at].row == row)
			at++;
		if (!add_row(m, row, m->steps + first, at - first))
			return &error_no_memory;
	}
	return NULL;
}

static int by_column(const void *a, const void *b)
{
	const struct time_piece *x = a, *y = b;

	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

struct error *time_order_make(const struct profile *p, struct time_order *ret)
{
	_cleanup_time_order_ struct time_order order = {0};
	struct making m = {.profile = p, .joined = 1, .order = &order};
	struct error *err = timeline_steps(&p->timeline, &m.steps, &m.step_count);
	uint64_t count, wall;

	profile_totals(p, &count, &wall);
	order.timed = wall != 0;
	if (!err)
		err = add_rows(&m);
	while (!err && is_over(&m)) {
		m.joined *= 2;
		err = add_rows(&m);
	}
	free(m.steps);
	if (err)
		return err;
	order.width_ns = p->timeline.width_ns * m.joined;
	if (order.count)
		qsort(order.pieces, order.count, sizeof(*order.pieces), by_column);
	*ret = order;
	order = (struct time_order){0};
	return NULL;
}

void time_order_release(struct time_order *order)
{
	free(order->pieces);
	*order = (struct time_order){0};
}
