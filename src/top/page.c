#include "top/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Title, four states, tables, columns; and the last line. */
#define HEAD_LINES 7
/* A lower terminal has no graph. */
#define LEAST_GRAPH_HEIGHT 14

static bool has_graph(size_t height)
{
	return height >= LEAST_GRAPH_HEIGHT;
}

static size_t head_lines(size_t height)
{
	return has_graph(height) ? HEAD_LINES : HEAD_LINES - TOP_STATES;
}

size_t top_page_height(size_t height)
{
	size_t used = head_lines(height) + 1;

	return height > used ? height - used : 0;
}

/* Empty, and big enough for lines to stay where they are. */
static bool clear(struct top_page *page, size_t height)
{
	for (size_t i = 0; i < page->count; i++)
		strbuf_reset(&page->lines[i].text);
	if (!array_reserve(&page->lines, &page->capacity, height + 1))
		return false;
	page->count = 0;
	return true;
}

static struct strbuf *add_line(struct top_page *page, enum top_style style)
{
	struct top_line *line = &page->lines[page->count++];

	if (!line->text.data)
		line->text = (struct strbuf)STRBUF_INIT;
	line->style = style;
	return &line->text;
}

static void add_title(struct top_page *page, const struct top_picture *p)
{
	_cleanup_strbuf_ struct strbuf title = STRBUF_INIT;
	const struct top_interval *last = top_model_interval(p->model, 0);
	double all = 0;

	for (size_t i = 0; last && i < TOP_STATES; i++)
		all += (double)last->states[i] / last->ns;
	strbuf_addf(&title, "%s  %.0f goroutines  last %u s%s", p->title, all, p->view->window,
		    p->view->frozen ? "  FROZEN" : "");
	top_add_start(add_line(page, TOP_STYLE_BAR), title.data, p->width, p->ascii);
}

/* Five characters. */
static void add_number(struct strbuf *sb, double n)
{
	if (n < 9.995)
		strbuf_addf(sb, "%5.2f", n);
	else if (n < 999.95)
		strbuf_addf(sb, "%5.1f", n);
	else if (n < 99999.5)
		strbuf_addf(sb, "%5.0f", n);
	else if (n < 9999500)
		strbuf_addf(sb, "%4.0fk", n / 1e3);
	else
		strbuf_addf(sb, "%4.0fM", n / 1e6);
}

static double interval_state(const struct top_interval *interval, size_t state)
{
	return interval ? (double)interval->states[state] / interval->ns : 0;
}

static void add_bar(struct strbuf *sb, double part, bool ascii)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const letters[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
	size_t level = part <= 0 ? 0 : 1 + part * 7.999;

	strbuf_adds(sb, (ascii ? letters : blocks)[level < 9 ? level : 8]);
}

/* "running    2.00 (a bar a second, the newest at the right) max  4.00" */
static void add_state(struct top_page *page, const struct top_picture *p, size_t state)
{
	struct strbuf *sb = add_line(page, TOP_STYLE_RUNNING + state);
	size_t room = p->width > 26 ? p->width - 26 : 0,
	       intervals = room < TOP_INTERVALS ? room : TOP_INTERVALS;
	double most = 0;

	for (size_t i = 0; i < intervals; i++)
		if (interval_state(top_model_interval(p->model, i), state) > most)
			most = interval_state(top_model_interval(p->model, i), state);
	if (p->width < 26) {
		top_add_start(sb, top_state_name(state), p->width, p->ascii);
		return;
	}
	strbuf_addf(sb, "%-9s", top_state_name(state));
	add_number(sb, interval_state(top_model_interval(p->model, 0), state));
	strbuf_addc(sb, ' ');
	for (size_t i = intervals; i-- > 0;)
		add_bar(sb,
			most ? interval_state(top_model_interval(p->model, i), state) / most : 0,
			p->ascii);
	strbuf_adds(sb, " max ");
	add_number(sb, most);
}

static void add_tables(struct top_page *page, const struct top_picture *p)
{
	static const char *const names[] = {"functions", "goroutines", "labels", "creators"};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < TOP_TABLES; i++)
		strbuf_addf(&sb, i == p->view->table ? "[%zu %s]" : " %zu %s ", i + 1, names[i]);
	if (*p->view->filter)
		strbuf_addf(&sb, "  filter: %s", p->view->filter);
	else if (p->view->table == TOP_GOROUTINES && p->rows->goroutines > p->rows->count)
		strbuf_addf(&sb, "  %zu of %zu", p->rows->count, p->rows->goroutines);
	top_add_start(add_line(page, TOP_STYLE_PLAIN), sb.data, p->width, p->ascii);
}

struct column {
	enum top_column id;
	const char *name;
	int width; /* with a blank before it; negative: to the left; 0: the rest of the line */
};

static const struct column function_columns[] = {{TOP_BY_SELF, "self", 7},
						 {TOP_BY_RUNNING, "running", 9},
						 {TOP_BY_RUNNABLE, "runnable", 10},
						 {TOP_BY_SYSCALL, "syscall", 9},
						 {TOP_BY_WAITING, "waiting", 9},
						 {TOP_BY_NAME, "function", 0}};
static const struct column goroutine_columns[] = {{TOP_BY_GOID, "goroutine", 11},
						  {TOP_BY_TIME, "for", 8},
						  {TOP_BY_STATE, "state", -20},
						  {TOP_BY_NAME, "in", 0}};
static const struct column label_columns[] = {{TOP_BY_RUNNING, "running", 9},
					      {TOP_BY_RUNNABLE, "runnable", 10},
					      {TOP_BY_SYSCALL, "syscall", 9},
					      {TOP_BY_WAITING, "waiting", 9},
					      {TOP_BY_TIME, "longest", 9},
					      {TOP_BY_NAME, "label", 0}};
static const struct column creator_columns[] = {{TOP_BY_RUNNING, "running", 9},
						{TOP_BY_RUNNABLE, "runnable", 10},
						{TOP_BY_SYSCALL, "syscall", 9},
						{TOP_BY_WAITING, "waiting", 9},
						{TOP_BY_TIME, "longest", 9},
						{TOP_BY_NAME, "created in", 0}};

static const struct column *columns_of(enum top_table table, size_t *ret)
{
	*ret = table == TOP_GOROUTINES ? ARRAY_SIZE(goroutine_columns)
				       : ARRAY_SIZE(function_columns);
	switch (table) {
	case TOP_FUNCTIONS:
		return function_columns;
	case TOP_GOROUTINES:
		return goroutine_columns;
	case TOP_LABELS:
		return label_columns;
	default:
		return creator_columns;
	}
}

static void add_blanks(struct strbuf *sb, size_t count)
{
	while (count--)
		strbuf_addc(sb, ' ');
}

/* Puts a cell into its column; the last takes the rest of the line. */
static void add_cell(struct strbuf *sb, const struct column *c, const char *text, size_t *left,
		     bool ascii)
{
	size_t width = c->width && (size_t)abs(c->width) < *left ? abs(c->width) : *left, shown;
	_cleanup_strbuf_ struct strbuf cell = STRBUF_INIT;

	if (!width)
		return;
	shown = top_add_text(&cell, text, width - 1, ascii);
	strbuf_addc(sb, ' ');
	if (c->width > 0)
		add_blanks(sb, width - 1 - shown);
	strbuf_adds(sb, cell.data);
	if (c->width < 0)
		add_blanks(sb, width - 1 - shown);
	*left -= width;
}

static void add_heading(struct top_page *page, const struct top_picture *p)
{
	struct strbuf *sb = add_line(page, TOP_STYLE_BAR);
	size_t count, left = p->width;
	const struct column *columns = columns_of(p->view->table, &count);

	for (size_t i = 0; i < count; i++) {
		bool sorted = columns[i].id == top_view_column(p->view);
		const char *mark = p->view->reverse[p->view->table] ? "^" : "*";
		char name[32];

		snprintf(name, sizeof(name), "%s%s", sorted ? mark : "", columns[i].name);
		add_cell(sb, &columns[i], name, &left, p->ascii);
	}
}

static const char *state_text(const struct top_picture *p, const struct top_key *key)
{
	enum top_state state = top_state_of(key->status);

	return state == TOP_WAITING ? p->names->wait_reason(p->names, key->wait_reason)
				    : top_state_name(state);
}

static void add_value(struct strbuf *sb, const struct top_picture *p, const struct top_row *row,
		      enum top_column column)
{
	switch (column) {
	case TOP_BY_SELF:
		return add_number(sb, row->self);
	case TOP_BY_RUNNING:
	case TOP_BY_RUNNABLE:
	case TOP_BY_SYSCALL:
	case TOP_BY_WAITING:
		return add_number(sb, row->states[column - TOP_BY_RUNNING]);
	case TOP_BY_TIME:
		if (row->time || p->view->table == TOP_GOROUTINES)
			top_add_time(sb, row->time);
		return;
	case TOP_BY_GOID:
		return strbuf_addu(sb, row->goroutine.goid);
	case TOP_BY_STATE:
		return strbuf_adds(sb, state_text(p, &row->goroutine.key));
	case TOP_BY_NAME:
		return strbuf_adds(sb, intern_get(&p->names->text, row->name));
	}
}

static void add_row(struct top_page *page, const struct top_picture *p, size_t at)
{
	bool selected = at == p->view->selected;
	struct strbuf *sb = add_line(page, selected ? TOP_STYLE_SELECTED : TOP_STYLE_PLAIN);
	size_t count, left = p->width;
	const struct column *columns = columns_of(p->view->table, &count);

	for (size_t i = 0; i < count; i++) {
		_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

		add_value(&value, p, &p->rows->items[at], columns[i].id);
		add_cell(sb, &columns[i], value.data, &left, p->ascii);
	}
}

static const char *why_empty(const struct top_picture *p)
{
	if (!top_model_interval(p->model, 0))
		return " reading all goroutines...";
	if (*p->view->filter)
		return " nothing matches the filter; Esc shows all";
	if (p->view->table == TOP_LABELS)
		return " no goroutine has labels";
	return p->view->table == TOP_FUNCTIONS ? " no samples" : " there are no goroutines";
}

static void add_rows(struct top_page *page, const struct top_picture *p, size_t room)
{
	for (size_t i = 0; i < room && p->view->scroll + i < p->rows->count; i++)
		add_row(page, p, p->view->scroll + i);
	if (!p->rows->count && room)
		top_add_start(add_line(page, TOP_STYLE_DIM), why_empty(p), p->width, p->ascii);
}

/* Lines of a text from the one on that it is scrolled to; the last ones when that is behind them.
 */
static void add_lines(struct top_page *page, const struct top_picture *p, const char *text,
		      size_t room)
{
	size_t count = 0, skip = p->view->text_scroll;
	const char *end;

	for (const char *s = text; (s = strchr(s, '\n')); s++)
		count++;
	page->last_scroll = count > room ? count - room : 0;
	if (skip > page->last_scroll)
		skip = page->last_scroll;
	for (size_t i = 0; i < skip + room && (end = strchr(text, '\n')); i++, text = end + 1) {
		_cleanup_free_ char *line = i < skip ? NULL : strndup(text, end - text);

		if (line)
			top_add_text(add_line(page, TOP_STYLE_PLAIN), line, p->width, p->ascii);
	}
}

static struct error *add_goroutine_title(struct strbuf *sb, const struct top_picture *p)
{
	const struct top_goroutine *g = p->goroutine;
	uint32_t labels[TOP_MAX_LABELS], count = 0;
	struct error *err = NULL;

	strbuf_addf(sb, "goroutine %lu [%s, ", g->goid, state_text(p, &g->key));
	top_add_time(sb, p->rows->now > g->since ? p->rows->now - g->since : 0);
	strbuf_addf(sb, "] created in %s",
		    intern_get(&p->names->text, p->names->creator(p->names, g->key.creator)));
	if (g->key.labels)
		err = p->names->labels(p->names, g->key.labels, labels, &count);
	for (uint32_t i = 0; !err && i < count; i++)
		strbuf_addf(sb, " %s", intern_get(&p->names->text, labels[i]));
	return err;
}

static struct error *add_stack(struct top_page *page, const struct top_picture *p, size_t room)
{
	_cleanup_strbuf_ struct strbuf title = STRBUF_INIT, text = STRBUF_INIT;
	struct error *err = NULL;

	if (p->goroutine) {
		err = add_goroutine_title(&title, p);
		p->names->describe(p->names, p->goroutine->key.stack, &text);
	} else {
		strbuf_addf(&title, "goroutine %lu has ended", p->view->goid);
	}
	top_add_start(add_line(page, TOP_STYLE_BAR), title.data, p->width, p->ascii);
	add_lines(page, p, text.data, room);
	return err ? err : text.failed ? &error_no_memory : NULL;
}

static const char help[] =
	"1 2 3 4, Tab  functions, goroutines, labels, creators\n"
	"Enter         the goroutines of a row; of a goroutine: its stack\n"
	"/             show only what has this text in a function of its stack, a label,\n"
	"              its creator, its state or wait reason; =TEXT: the whole name\n"
	"Esc           back; show all again\n"
	"s, r          sort by the next column (marked *), the other way round (^)\n"
	"t             count over the last second, 10 seconds, minute\n"
	"f, Space      freeze; go on, without the time in between\n"
	"w             write a profile of the last minute\n"
	"arrows, j k, PgUp PgDn, Home End  move\n"
	"q             quit\n"
	"Numbers are goroutines on average: 2.00 running is two cores' time. self: in\n"
	"the function itself; else with what it calls. A graph has a bar a second.\n";

static void add_status(struct top_page *page, const struct top_picture *p)
{
	const struct top_view *v = p->view;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	bool asks = v->mode == TOP_ASKS_FILTER || v->mode == TOP_ASKS_FILE;
	enum top_style style = TOP_STYLE_DIM;

	if (asks) {
		strbuf_addf(&sb, "%s: ", v->mode == TOP_ASKS_FILTER ? "filter" : "write to");
		top_add_text(&sb, v->input, p->width > sb.length + 1 ? p->width - sb.length - 1 : 0,
			     p->ascii);
		strbuf_addc(&sb, '_');
		style = TOP_STYLE_PLAIN;
	} else if (*v->message || p->alert) {
		strbuf_adds(&sb, *v->message ? v->message : p->alert);
		style = TOP_STYLE_ALERT;
	} else {
		strbuf_adds(&sb,
			    "q quit  ? help  Tab table  s sort  / filter  f freeze  Enter open  w "
			    "write");
	}
	top_add_start(add_line(page, style), sb.data, p->width, p->ascii);
}

struct error *top_page_make(struct top_page *page, const struct top_picture *p)
{
	size_t room = top_page_height(p->height);
	struct error *err = NULL;

	if (!clear(page, head_lines(p->height) + room + 1))
		return &error_no_memory;
	add_title(page, p);
	for (size_t i = 0; has_graph(p->height) && i < TOP_STATES; i++)
		add_state(page, p, i);
	add_tables(page, p);
	if (p->view->mode == TOP_SHOWS_STACK) {
		err = add_stack(page, p, room);
	} else if (p->view->mode == TOP_SHOWS_HELP) {
		top_add_start(add_line(page, TOP_STYLE_BAR), "keys", p->width, p->ascii);
		add_lines(page, p, help, room);
	} else {
		add_heading(page, p);
		add_rows(page, p, room);
	}
	while (page->count < head_lines(p->height) + room)
		add_line(page, TOP_STYLE_PLAIN);
	add_status(page, p);
	for (size_t i = 0; !err && i < page->count; i++)
		if (page->lines[i].text.failed)
			err = &error_no_memory;
	return err;
}

void top_page_release(struct top_page *page)
{
	for (size_t i = 0; i < page->capacity; i++)
		if (page->lines[i].text.data)
			strbuf_release(&page->lines[i].text);
	free(page->lines);
	*page = (struct top_page){0};
}
