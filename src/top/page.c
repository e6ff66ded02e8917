#include "top/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "top/page_text.h"
#include "top/table_page.h"

/* Title, tables, columns; and the last line. */
#define HEAD_LINES 3
/* A terminal with fewer lines has no graphs, or no sentence. */
#define LEAST_GRAPH_HEIGHT 16
#define LEAST_WHY_HEIGHT 8

static bool has_graph(size_t height)
{
	return height >= LEAST_GRAPH_HEIGHT;
}

static bool has_why(size_t height)
{
	return height >= LEAST_WHY_HEIGHT;
}

static size_t head_lines(size_t height, bool requests)
{
	return HEAD_LINES + (has_graph(height) ? TOP_STATES : 0) +
	       (has_why(height) ? 1 + requests : 0);
}

size_t top_page_height(size_t height, bool requests)
{
	size_t used = head_lines(height, requests) + 1;

	return height > used ? height - used : 0;
}

/* Empties it, with room for all lines, so that they do not move. */
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

static void add_why(struct top_page *page, const struct top_picture *p)
{
	const char *why = !p->why   ? "looking for what stands out..."
			  : *p->why ? p->why
				    : "nothing stands out";

	top_add_start(add_line(page, p->why && *p->why ? TOP_STYLE_STRONG : TOP_STYLE_DIM), why,
		      p->width, p->ascii);
}

static void add_duration(struct strbuf *sb, const char *name, uint64_t ns, uint64_t interval)
{
	strbuf_addf(sb, "  %s %s", name, ns ? "" : "<");
	top_add_time(sb, ns ? ns : interval);
}

/* "requests (estimated) 212/s  p50 <10ms  p99 480ms  8.3 in progress, oldest 512ms" */
static void add_requests(struct top_page *page, const struct top_picture *p)
{
	const struct request_numbers *n = p->requests;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_addf(&sb, "requests (estimated) %s%.*f/s", n->at_least ? ">" : "",
		    n->rate < 9.95 ? 1 : 0, n->rate);
	if (n->rate > 0) {
		add_duration(&sb, "p50", n->p50, n->interval);
		add_duration(&sb, "p99", n->p99, n->interval);
	}
	strbuf_addf(&sb, "  %.*f in progress", n->current < 9.95 ? 1 : 0, n->current);
	if (n->oldest) {
		strbuf_adds(&sb, ", oldest ");
		top_add_time(&sb, n->oldest);
	}
	top_add_start(add_line(page, TOP_STYLE_PLAIN), sb.data, p->width, p->ascii);
}

static double interval_state(const struct top_interval *interval, size_t state)
{
	return interval ? (double)interval->states[state] / interval->ns : 0;
}

#define STATE_ROOM 31

/* "running    2.00   3% (a bar a second, the newest at the right) max  4.00" */
static void add_state(struct top_page *page, const struct top_picture *p, size_t state)
{
	struct strbuf *sb = add_line(page, TOP_STYLE_RUNNING + state);
	size_t room = p->width > STATE_ROOM ? p->width - STATE_ROOM : 0;
	size_t intervals = room < TOP_INTERVALS ? room : TOP_INTERVALS;
	const struct top_interval *last = top_model_interval(p->model, 0);
	double most = 0, all = 0;

	for (size_t i = 0; i < intervals; i++)
		if (interval_state(top_model_interval(p->model, i), state) > most)
			most = interval_state(top_model_interval(p->model, i), state);
	for (size_t i = 0; i < TOP_STATES; i++)
		all += interval_state(last, i);
	if (p->width < STATE_ROOM) {
		top_add_start(sb, top_state_name(state), p->width, p->ascii);
		return;
	}
	strbuf_addf(sb, "%-9s", top_state_name(state));
	top_add_number(sb, interval_state(last, state));
	strbuf_addc(sb, ' ');
	top_add_percent(sb, interval_state(last, state), all);
	strbuf_addc(sb, ' ');
	for (size_t i = intervals; i-- > 0;)
		top_add_bar(sb,
			    most ? interval_state(top_model_interval(p->model, i), state) / most
				 : 0,
			    p->ascii);
	strbuf_adds(sb, " max ");
	top_add_number(sb, most);
}

static void add_tables(struct top_page *page, const struct top_picture *p)
{
	static const char *const names[] = {"functions", "waits", "goroutines", "creators",
					    "labels"};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < TOP_TABLES; i++)
		strbuf_addf(&sb, i == p->view->table ? "[%zu %s]" : " %zu %s ", i + 1, names[i]);
	if (*p->view->filter)
		strbuf_addf(&sb, "  filter: %s", p->view->filter);
	else if (p->view->table == TOP_GOROUTINES && p->rows->goroutines > p->rows->count)
		strbuf_addf(&sb, "  %zu of %zu", p->rows->count, p->rows->goroutines);
	else if (p->view->table != TOP_GOROUTINES && p->rows->left_out)
		strbuf_addf(&sb, "  %zu below 0.1 %%", p->rows->left_out);
	top_add_start(add_line(page, TOP_STYLE_PLAIN), sb.data, p->width, p->ascii);
}

static struct top_table_picture table_picture(const struct top_picture *p)
{
	return (struct top_table_picture){p->view,  p->rows,  p->series,
					  p->names, p->width, p->ascii};
}

static void add_row(struct top_page *page, const struct top_picture *p, size_t at)
{
	const struct top_table_picture table = table_picture(p);
	bool selected = at == p->view->selected;

	top_table_row(add_line(page, selected ? TOP_STYLE_SELECTED : TOP_STYLE_PLAIN), &table, at);
}

static void add_heading(struct top_page *page, const struct top_picture *p)
{
	const struct top_table_picture table = table_picture(p);

	top_table_heading(add_line(page, TOP_STYLE_BAR), &table);
}

static const char *why_empty(const struct top_picture *p)
{
	if (!top_model_interval(p->model, 0))
		return " reading all goroutines...";
	if (*p->view->filter)
		return " nothing matches the filter; Esc shows all";
	if (p->view->table == TOP_LABELS)
		return " no goroutine has labels";
	if (p->view->table == TOP_WAITS)
		return " no goroutine waits";
	return p->view->table == TOP_FUNCTIONS ? " no samples" : " there are no goroutines";
}

static void add_rows(struct top_page *page, const struct top_picture *p, size_t room)
{
	for (size_t i = 0; i < room && p->view->scroll + i < p->rows->count; i++)
		add_row(page, p, p->view->scroll + i);
	if (!p->rows->count && room)
		top_add_start(add_line(page, TOP_STYLE_DIM), why_empty(p), p->width, p->ascii);
}

/* Adds the lines of a text from the scroll position on; the last lines if that is beyond the end.
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

	strbuf_addf(sb, "goroutine %lu [%s, ", g->goid, top_state_text(p->names, &g->key));
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
	"1 2 3 4 5, Tab  functions, waits, goroutines, creators, labels\n"
	"Enter   the goroutines of a row; of a goroutine: its stack\n"
	"/       only rows with this text in a function of the stack, a label, the\n"
	"        creator, the state or wait reason; =TEXT: the whole name\n"
	"Esc     back; show all again\n"
	"s, r    sort by the next column (marked *), the other way round (^)\n"
	"t       count over the last second, 10 seconds, minute\n"
	"f       freeze (Space too); go on, without the time in between\n"
	"w       write a profile of the last minute\n"
	"arrows, j k, PgUp PgDn, Home End  move;  q  quit\n"
	"A number is goroutines on average: 2.00 running is two cores' time. The percent\n"
	"beside it is its part of all running, blocked, ... self: in the function itself,\n"
	"else with what it calls. blocked: waiting, without those that wait for work.\n"
	"minute: the last minute of the column that rows are sorted by, each row by its\n"
	"own highest value. growth: since top began; in 1 min: in the last minute.\n"
	"requests: estimated from goroutines that are seen in handlers of net/http and\n"
	"gRPC at one look and not at the next; <: less than the time between two looks,\n"
	">: short requests may have come and gone unseen.\n";

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

static struct error *check_text(const struct top_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		if (page->lines[i].text.failed)
			return &error_no_memory;
	return NULL;
}

static struct error *add_view(struct top_page *page, const struct top_picture *p, size_t room)
{
	if (has_why(p->height))
		add_why(page, p);
	if (has_why(p->height) && p->requests)
		add_requests(page, p);
	for (size_t i = 0; has_graph(p->height) && i < TOP_STATES; i++)
		add_state(page, p, i);
	add_tables(page, p);
	if (p->view->mode == TOP_SHOWS_STACK)
		return add_stack(page, p, room);
	add_heading(page, p);
	add_rows(page, p, room);
	return NULL;
}

struct error *top_page_make(struct top_page *page, const struct top_picture *p)
{
	size_t room = top_page_height(p->height, p->requests);
	size_t last = head_lines(p->height, p->requests) + room;
	struct error *err = NULL;

	if (!clear(page, last + 1))
		return &error_no_memory;
	add_title(page, p);
	if (p->view->mode == TOP_SHOWS_HELP)
		add_lines(page, p, help, last - 1);
	else
		err = add_view(page, p, room);
	while (page->count < last)
		add_line(page, TOP_STYLE_PLAIN);
	add_status(page, p);
	return err ? err : check_text(page);
}

void top_page_release(struct top_page *page)
{
	for (size_t i = 0; i < page->capacity; i++)
		if (page->lines[i].text.data)
			strbuf_release(&page->lines[i].text);
	free(page->lines);
	*page = (struct top_page){0};
}
