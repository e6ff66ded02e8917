#include "top/table_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "top/page_text.h"

#define SERIES_LEAST 7
#define SERIES_MOST (TOP_INTERVALS + 1)
#define MOST_COLUMNS 9

struct column {
	enum top_column id;
	const char *name;
	int width; /* including a leading blank; negative: aligned left; the last column takes the
		    * rest */
	int rank;  /* columns with the highest rank are dropped first; 0: never */
};

static const struct column function_columns[] = {{TOP_BY_SELF, "self", 11, 0},
						 {TOP_BY_RUNNING, "running", 11, 1},
						 {TOP_BY_RUNNABLE, "runnable", 11, 6},
						 {TOP_BY_SYSCALL, "syscall", 9, 4},
						 {TOP_BY_WAITING, "waiting", 9, 3},
						 {TOP_BY_BLOCKED, "blocked", 11, 2},
						 {TOP_SERIES, "minute", 0, 5},
						 {TOP_BY_NAME, "function", 22, 0}};
static const struct column wait_columns[] = {{TOP_BY_BLOCKED, "blocked", 11, 0},
					     {TOP_BY_WAITING, "waiting", 11, 2},
					     {TOP_BY_TIME, "longest", 9, 3},
					     {TOP_SERIES, "minute", 0, 5},
					     {TOP_BY_NAME, "wait reason", -20, 0},
					     {TOP_PLACE, "most of it in", 20, 1}};
static const struct column goroutine_columns[] = {{TOP_BY_GOID, "goroutine", 11, 2},
						  {TOP_BY_TIME, "for", 8, 1},
						  {TOP_BY_STATE, "state", -20, 3},
						  {TOP_BY_NAME, "in", 20, 0}};
static const struct column creator_columns[] = {{TOP_BY_COUNT, "count", 11, 0},
						{TOP_BY_GROWTH, "growth", 8, 1},
						{TOP_BY_CHANGE, "in 1 min", 9, 2},
						{TOP_BY_RUNNING, "running", 11, 6},
						{TOP_BY_WAITING, "waiting", 9, 5},
						{TOP_BY_TIME, "longest", 9, 3},
						{TOP_SERIES, "minute", 0, 5},
						{TOP_BY_NAME, "created in", 28, 0}};
static const struct column label_columns[] = {{TOP_BY_RUNNING, "running", 11, 0},
					      {TOP_BY_RUNNABLE, "runnable", 11, 6},
					      {TOP_BY_SYSCALL, "syscall", 9, 4},
					      {TOP_BY_WAITING, "waiting", 9, 2},
					      {TOP_BY_BLOCKED, "blocked", 11, 1},
					      {TOP_BY_TIME, "longest", 9, 3},
					      {TOP_SERIES, "minute", 0, 5},
					      {TOP_BY_NAME, "label", 24, 0}};

#define COLUMNS(of)                \
	{                          \
		of, ARRAY_SIZE(of) \
	}
static const struct {
	const struct column *columns;
	size_t count;
} tables[TOP_TABLES] = {COLUMNS(function_columns), COLUMNS(wait_columns),
			COLUMNS(goroutine_columns), COLUMNS(creator_columns),
			COLUMNS(label_columns)};

/* The columns that fit into a line. */
struct layout {
	struct column columns[MOST_COLUMNS];
	size_t count;
};

static size_t needed(const struct layout *l)
{
	size_t sum = 0;

	for (size_t i = 0; i < l->count; i++)
		sum += abs(l->columns[i].width);
	return sum;
}

static bool drop_column(struct layout *l)
{
	size_t worst = 0;

	for (size_t i = 1; i < l->count; i++)
		if (l->columns[i].rank > l->columns[worst].rank)
			worst = i;
	if (!l->columns[worst].rank)
		return false;
	for (size_t i = worst + 1; i < l->count; i++)
		l->columns[i - 1] = l->columns[i];
	l->count--;
	return true;
}

/* The graph takes half of the remaining room, up to a column a second. */
static struct layout lay_out(enum top_table table, size_t width)
{
	struct layout l = {.count = tables[table].count};
	size_t more;

	for (size_t i = 0; i < l.count; i++) {
		l.columns[i] = tables[table].columns[i];
		if (l.columns[i].id == TOP_SERIES)
			l.columns[i].width = SERIES_LEAST;
	}
	while (needed(&l) > width && drop_column(&l))
		;
	more = width > needed(&l) ? (width - needed(&l)) / 2 : 0;
	for (size_t i = 0; i < l.count; i++)
		if (l.columns[i].id == TOP_SERIES)
			l.columns[i].width += more < SERIES_MOST - SERIES_LEAST
						      ? more
						      : SERIES_MOST - SERIES_LEAST;
	return l;
}

static void add_blanks(struct strbuf *sb, size_t count)
{
	while (count--)
		strbuf_addc(sb, ' ');
}

/* Puts a cell into its column. */
static void add_cell(struct strbuf *sb, const struct column *c, bool is_last, const char *text,
		     size_t *left, bool ascii)
{
	size_t wanted = abs(c->width), width = !is_last && wanted < *left ? wanted : *left, shown;
	bool is_name = c->id == TOP_BY_NAME || c->id == TOP_PLACE;
	_cleanup_strbuf_ struct strbuf cell = STRBUF_INIT;

	if (!width)
		return;
	shown = is_name ? top_add_name(&cell, text, width - 1, ascii)
			: top_add_text(&cell, text, width - 1, ascii);
	strbuf_addc(sb, ' ');
	if (c->width > 0 && !is_last)
		add_blanks(sb, width - 1 - shown);
	strbuf_adds(sb, cell.data);
	if (c->width < 0 && !is_last)
		add_blanks(sb, width - 1 - shown);
	*left -= width;
}

void top_table_heading(struct strbuf *sb, const struct top_table_picture *p)
{
	const struct layout l = lay_out(p->view->table, p->width);
	const char *mark = p->view->reverse[p->view->table] ? "^" : "*";
	size_t left = p->width;

	for (size_t i = 0; i < l.count; i++) {
		bool sorted = l.columns[i].id == top_view_column(p->view);
		char name[32];

		snprintf(name, sizeof(name), "%s%s", sorted ? mark : "", l.columns[i].name);
		add_cell(sb, &l.columns[i], i + 1 == l.count, name, &left, p->ascii);
	}
}

const char *top_state_text(struct top_names *names, const struct top_key *key)
{
	enum top_state state = top_state_of(key->status);

	return state == TOP_WAITING ? names->wait_reason(names, key->wait_reason)
				    : top_state_name(state);
}

/* "  4.1  64%" */
static void add_both(struct strbuf *sb, double value, double whole)
{
	top_add_number(sb, value);
	strbuf_addc(sb, ' ');
	top_add_percent(sb, value, whole);
}

static double count_of_last_interval(const struct top_rows *r)
{
	const struct top_interval *interval = r->model ? top_model_interval(r->model, 0) : NULL;
	double sum = 0;

	for (size_t i = 0; interval && i < TOP_STATES; i++)
		sum += (double)interval->states[i] / interval->ns;
	return sum;
}

/* "+372", "0" */
static void add_growth(struct strbuf *sb, double growth)
{
	if (fabs(growth) < 0.5)
		strbuf_addc(sb, '0');
	else if (fabs(growth) < 99999.5)
		strbuf_addf(sb, "%+.0f", growth);
	else
		strbuf_addf(sb, "%+.0fk", growth / 1e3);
}

/* The newest is at the right. A column averages as many intervals as necessary. */
static void add_series(struct strbuf *sb, const struct top_table_picture *p, size_t row,
		       size_t columns)
{
	const double *intervals;
	double values[SERIES_MOST] = {0}, most = 0;
	size_t counts[SERIES_MOST] = {0};

	if (row < p->series->first || row >= p->series->first + p->series->count)
		return;
	columns = columns < TOP_INTERVALS ? columns : TOP_INTERVALS;
	intervals = p->series->rows[row - p->series->first];
	for (size_t back = 0; back < p->series->intervals; back++) {
		size_t at = columns - 1 - back * columns / TOP_INTERVALS;

		values[at] += intervals[back];
		counts[at]++;
	}
	for (size_t i = 0; i < columns; i++) {
		values[i] = counts[i] ? values[i] / counts[i] : 0;
		most = values[i] > most ? values[i] : most;
	}
	for (size_t i = 0; i < columns; i++)
		top_add_bar(sb, most > 0 ? values[i] / most : 0, p->ascii);
}

static void add_time_cell(struct strbuf *sb, const struct top_table_picture *p,
			  const struct top_row *row)
{
	if (row->time || p->view->table == TOP_GOROUTINES)
		top_add_time(sb, row->time);
	else
		strbuf_addc(sb, '-');
}

static void add_value(struct strbuf *sb, const struct top_table_picture *p, size_t at,
		      const struct column *c)
{
	const struct top_rows *r = p->rows;
	const struct top_row *row = &r->items[at];

	switch (c->id) {
	case TOP_BY_SELF:
		return add_both(sb, row->self, r->totals[TOP_RUNNING]);
	case TOP_BY_RUNNING:
	case TOP_BY_RUNNABLE:
	case TOP_BY_SYSCALL:
	case TOP_BY_WAITING:
		if (c->width < 11)
			return top_add_number(sb, row->states[c->id - TOP_BY_RUNNING]);
		return add_both(sb, row->states[c->id - TOP_BY_RUNNING],
				r->totals[c->id - TOP_BY_RUNNING]);
	case TOP_BY_BLOCKED:
		return add_both(sb, row->blocked, r->total_blocked);
	case TOP_BY_COUNT:
		return add_both(sb, row->count, count_of_last_interval(r));
	case TOP_BY_GROWTH:
		return add_growth(sb, row->growth);
	case TOP_BY_CHANGE:
		return add_growth(sb, row->change);
	case TOP_BY_TIME:
		return add_time_cell(sb, p, row);
	case TOP_BY_GOID:
		return strbuf_addu(sb, row->goroutine.goid);
	case TOP_BY_STATE:
		return strbuf_adds(sb, top_state_text(p->names, &row->goroutine.key));
	case TOP_BY_NAME:
		return strbuf_adds(sb, intern_get(&p->names->text, row->name));
	case TOP_PLACE:
		return strbuf_adds(sb, intern_get(&p->names->text, row->place));
	case TOP_SERIES:
		return add_series(sb, p, at, c->width - 1);
	}
}

void top_table_row(struct strbuf *sb, const struct top_table_picture *p, size_t row)
{
	const struct layout l = lay_out(p->view->table, p->width);
	size_t left = p->width;

	for (size_t i = 0; i < l.count; i++) {
		_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

		add_value(&value, p, row, &l.columns[i]);
		/* The graph is gospect's own text, and fits. */
		if (l.columns[i].id == TOP_SERIES && (size_t)l.columns[i].width <= left &&
		    i + 1 < l.count) {
			strbuf_addc(sb, ' ');
			strbuf_adds(sb, value.data);
			add_blanks(sb, value.length ? 0 : l.columns[i].width - 1);
			left -= l.columns[i].width;
			continue;
		}
		add_cell(sb, &l.columns[i], i + 1 == l.count, value.data, &left, p->ascii);
	}
}
