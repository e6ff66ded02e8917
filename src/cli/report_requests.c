#include <ctype.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "cli/report.h"
#include "cli/report_path.h"
#include "cli/report_rows.h"
#include "cli/report_wakers.h"
#include "cli/terminal.h"

/* The most places of a request in the table, and bytes of its name. */
enum { MAX_PLACES = 3, MAX_NAME = 120 };

/* The start of a long name, up to the end of a character. */
static void add_name(struct strbuf *line, const char *name)
{
	size_t n = strnlen(name, MAX_NAME);

	while (((unsigned char)name[n] & 0xc0) == 0x80)
		n++;
	strbuf_adds(line, *name ? "" : "(none)");
	strbuf_add(line, name, n);
	strbuf_adds(line, name[n] ? "..." : "");
}

/* Columns before the time of a place. */
static int place_indent(FILE *out)
{
	return terminal_is_narrow(out) ? 4 : 20;
}

/* A narrow terminal shows functions without the path of their package. */
static const char *function_name(const char *name, FILE *out)
{
	return terminal_is_narrow(out) ? short_function(name) : name;
}

/* What ran, and how certain that is. */
static void print_running(const struct gospect_running_function *running, size_t count, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char time[16], error[16];

	for (size_t i = 0; i < count && i < MAX_PLACES; i++) {
		const struct gospect_running_function *f = &running[i];

		strbuf_addf(&line, "%*s %9s  ran %s, ±%s, %lu samples", place_indent(out), "",
			    report_time(f->ns, time), function_name(f->function, out),
			    report_time(f->error_ns, error), f->samples);
		terminal_write_line(&line, out);
	}
}

static void print_places(const struct gospect_request *r, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	size_t printed = 0;
	char time[16];

	for (size_t i = 0; i < r->place_count && printed < MAX_PLACES; i++) {
		const struct gospect_request_place *p = r->places[i];
		const struct gospect_frame *frame = cause_frame(p->stack);

		if (p->state == GOSPECT_RUNNING)
			continue;
		printed++;
		strbuf_addf(&line, "%*s %9s  %s", place_indent(out), "", report_time(p->ns, time),
			    *p->wait_reason ? p->wait_reason : gospect_state_name(p->state));
		if (frame && *frame->function) {
			strbuf_adds(&line, " in ");
			report_add_place(&line, function_name(frame->function, out), frame->line);
		}
		if (p->count > 1)
			strbuf_addf(&line, ", %lu times", p->count);
		report_add_before(&line, p->waited_ns);
		terminal_write_line(&line, out);
		strbuf_addf(&line, "%*s ", place_indent(out) + 12, "");
		report_add_wakers(&line, p->wakers, p->waker_count, p->ns, terminal_is_narrow(out));
		if (p->waker_count)
			terminal_write_line(&line, out);
		strbuf_reset(&line);
	}
}

/* The calls of --span. */
static void print_parts(const struct gospect_request *r, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char time[16];

	for (size_t i = 0; i < r->part_count && i < MAX_PLACES; i++) {
		const struct gospect_request_part *p = &r->parts[i];

		strbuf_addf(&line, "%*s %9s  span %s", place_indent(out), "",
			    report_time(p->ns, time), function_name(p->function, out));
		if (p->count > 1)
			strbuf_addf(&line, ", %lu times", p->count);
		terminal_write_line(&line, out);
	}
}

/* "12.3 MiB (±1.2 MiB) in 4,000 objects" */
static void add_allocated(struct strbuf *line, const struct gospect_allocations *a)
{
	char bytes[16], error[16];

	if (!a->samples && a->bytes_error) {
		strbuf_addf(line, "less than %s", report_bytes(a->bytes_error, bytes));
		return;
	}
	strbuf_adds(line, report_bytes(a->bytes, bytes));
	if (a->bytes_error)
		strbuf_addf(line, " (±%s)", report_bytes(a->bytes_error, error));
	strbuf_addf(line, " in %lu object%s", a->objects, a->objects == 1 ? "" : "s");
}

/* What was allocated, and where the most. */
static void print_allocations(const struct gospect_request *r, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char bytes[16];

	strbuf_addf(&line, "%*s %9s  ", place_indent(out), "", "allocated");
	add_allocated(&line, r->allocated);
	terminal_write_line(&line, out);
	for (size_t i = 0; i < r->allocated->stack_count && i < MAX_PLACES; i++) {
		const struct gospect_allocation_stack *s = r->allocated->stacks[i];
		const struct gospect_frame *frame = cause_frame(s->stack);

		strbuf_addf(&line, "%*s %9s  ", place_indent(out), "",
			    report_bytes(s->bytes, bytes));
		if (frame && *frame->function) {
			strbuf_adds(&line, "in ");
			report_add_place(&line, function_name(frame->function, out), frame->line);
			strbuf_adds(&line, ", ");
		}
		strbuf_addf(&line, "%lu object%s", s->objects, s->objects == 1 ? "" : "s");
		terminal_write_line(&line, out);
	}
}

/* Columns of a number. */
static int number_width(bool narrow)
{
	return narrow ? 8 : 9;
}

static void add_number(struct strbuf *line, bool narrow, const char *text)
{
	strbuf_addf(line, "%*s ", number_width(narrow), text);
}

static void add_times(struct strbuf *line, const struct gospect_request *r, bool narrow)
{
	char t[16];

	strbuf_addf(line, "%*s%c ", number_width(narrow), report_time(r->elapsed_ns, t),
		    r->is_cut ? '+' : ' ');
	if (!narrow)
		add_number(line, narrow, report_time(r->total_ns, t));
	add_number(line, narrow, report_time(r->running_ns, t));
	if (!narrow)
		add_number(line, narrow, report_time(r->runnable_ns, t));
	if (!narrow)
		add_number(line, narrow, report_time(r->syscall_ns, t));
	add_number(line, narrow, report_time(r->waiting_ns, t));
	strbuf_addf(line, "%*lu  ", narrow ? 4 : 5, r->goroutines);
}

/* "GET /users/7 200, GET /users/{id}": as far as it is known. */
static void add_facts(struct strbuf *line, const struct gospect_request *r)
{
	const char *path = strchr(r->route, '/');

	strbuf_addf(line, "%s ", r->method);
	add_name(line, r->url_path);
	if (r->has_status)
		strbuf_addf(line, " %s", r->status_name);
	if (!*r->route || (path && !strcmp(path, r->url_path)))
		return;
	strbuf_adds(line, ", route ");
	add_name(line, r->route);
}

static void print_request(const struct gospect_request *r, const struct report_requests *how,
			  FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	bool narrow = terminal_is_narrow(out), by_function = how->by_function;
	char time[16];

	add_times(&line, r, narrow);
	if (how->by_trace)
		strbuf_addf(&line, "%s ", r->name);
	if (by_function && *r->method)
		add_facts(&line, r);
	else
		add_name(&line, by_function ? function_name(r->name, out) : r->name);
	if (by_function && narrow) {
		terminal_write_line(&line, out);
		strbuf_addf(&line, "%*s goroutine %lu at %s", place_indent(out) + 11, "",
			    r->goroutine, report_time(r->begin_ns, time));
	} else if (by_function) {
		strbuf_addf(&line, " (goroutine %lu at %s)", r->goroutine,
			    report_time(r->begin_ns, time));
	}
	if (r->uncertain_ns)
		strbuf_addf(&line, " (%s of it uncertain)", report_time(r->uncertain_ns, time));
	terminal_write_line(&line, out);
	print_parts(r, out);
	if (how->allocations)
		print_allocations(r, out);
	if (how->paths) {
		report_print_path(r, out);
		return;
	}
	print_running(r->running, r->running_count, out);
	print_places(r, out);
}

/* The state of a table or a list while its rows are written. */
struct writing {
	const struct report_requests *how;
	struct report_rows rows;
};

static struct writing begin(const struct report_requests *how, FILE *out, struct json_object *list)
{
	return (struct writing){how, {how->rows, out, list, 0}};
}

static bool groups_are_named(const struct report_requests *how)
{
	return how->groups && (how->per || how->by_function);
}

static void add_percent(struct strbuf *line, uint64_t part, uint64_t whole)
{
	strbuf_addf(line, "%8.1f%% ", whole ? 100.0 * part / whole : 0);
}

static void add_group_numbers(struct strbuf *line, const struct gospect_request_group *g,
			      bool narrow)
{
	char t[16];

	strbuf_addf(line, "%*lu ", number_width(narrow), g->count);
	add_number(line, narrow, report_time(g->p50_ns, t));
	if (!narrow)
		add_number(line, narrow, report_time(g->p90_ns, t));
	add_number(line, narrow, report_time(g->p99_ns, t));
	add_number(line, narrow, report_time(g->max_ns, t));
	if (!narrow) {
		add_percent(line, g->running_ns, g->total_ns);
		add_percent(line, g->runnable_ns, g->total_ns);
		add_percent(line, g->syscall_ns, g->total_ns);
	}
	strbuf_addf(line, "%*.1f%%  ", number_width(narrow) - 1,
		    g->total_ns ? 100.0 * g->waiting_ns / g->total_ns : 0);
}

static void add_group_allocated(struct strbuf *line, const struct gospect_allocations *a,
				bool narrow)
{
	char text[16];

	add_number(line, narrow, report_bytes(a->bytes, text));
	if (!narrow)
		strbuf_addf(line, "%*s %*lu  ", number_width(narrow),
			    report_bytes(a->bytes_error, text), number_width(narrow), a->objects);
}

static int print_group(void *arg, const struct gospect_request_group *g)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	struct writing *w = arg;
	bool narrow = terminal_is_narrow(w->rows.out);

	if (!report_rows_next(&w->rows))
		return 0;
	add_group_numbers(&line, g, narrow);
	if (w->how->allocations)
		add_group_allocated(&line, g->allocated, narrow);
	if (groups_are_named(w->how))
		add_name(&line, w->how->per ? g->name : function_name(g->name, w->rows.out));
	else
		strbuf_adds(&line, "all");
	if (g->cut)
		strbuf_addf(&line,
			    narrow ? " (+%lu cut)"
				   : " (and %lu that began before the trace or ended after it)",
			    g->cut);
	terminal_write_line(&line, w->rows.out);
	print_running(g->running, g->running_count, w->rows.out);
	return 0;
}

static const char *allocated_heading(const struct report_requests *how, bool narrow)
{
	if (!how->allocations)
		return "";
	return narrow ? "   ALLOC " : "ALLOCATED         ±   OBJECTS  ";
}

static struct error *write_groups(const struct gospect_requests *requests,
				  const struct report_requests *how, FILE *out)
{
	struct writing w = begin(how, out, NULL);
	const char *named = how->per ? how->per : how->heading;
	bool narrow = terminal_is_narrow(out);
	int width = number_width(narrow);
	struct error *err;

	terminal_line(out, "%*s %*s %s%*s %*s %s%*s  %s%s", width, "REQUESTS", width, "P50",
		      narrow ? "" : "      P90 ", width, "P99", width, "MAX",
		      narrow ? "" : "  RUNNING  RUNNABLE   SYSCALL ", width, "BLOCKED",
		      allocated_heading(how, narrow), groups_are_named(how) ? named : "");
	err = library_error(gospect_requests_groups(requests, print_group, &w));
	if (!err)
		report_rows_end(&w.rows);
	return err;
}

static int write_request(void *arg, const struct gospect_request *r)
{
	struct writing *w = arg;

	if (!report_rows_next(&w->rows))
		return 1;
	print_request(r, w->how, w->rows.out);
	return 0;
}

struct error *report_write_requests(const struct gospect_requests *requests,
				    const struct report_requests *how, FILE *out)
{
	struct writing w = begin(how, out, NULL);
	bool narrow = terminal_is_narrow(out);
	int width = number_width(narrow);
	struct error *err;

	if (how->groups)
		return write_groups(requests, how, out);
	terminal_line(out, "%*s  %s%*s %s%*s %*s  %s AND %s", width, "ELAPSED",
		      narrow ? "" : "     TIME ", width, "RUNNING",
		      narrow ? "" : " RUNNABLE   SYSCALL ", width, "BLOCKED", narrow ? 4 : 5, "GO",
		      how->heading, how->paths ? "CRITICAL PATH" : "WAITS");
	err = library_error(gospect_requests_each(requests, write_request, &w));
	if (err)
		return err;
	w.rows.count = gospect_requests_count(requests);
	report_rows_end(&w.rows);
	fputc('\n', out);
	return write_groups(requests, how, out);
}

/* ---- JSON ---- */

/* Of struct gospect_allocations and of one of its stacks. */
#define add_estimate(o, a)                                                 \
	do {                                                               \
		report_add_number(o, "bytes", (a)->bytes);                 \
		report_add_number(o, "bytes_error", (a)->bytes_error);     \
		report_add_number(o, "objects", (a)->objects);             \
		report_add_number(o, "objects_error", (a)->objects_error); \
		report_add_number(o, "samples", (a)->samples);             \
	} while (0)

static struct json_object *allocated_json(const struct gospect_allocations *a)
{
	struct json_object *o = json_object_new_object();

	add_estimate(o, a);
	return o;
}

static struct json_object *allocations_json(const struct gospect_allocations *a)
{
	struct json_object *o = allocated_json(a), *list = json_object_new_array();

	for (size_t i = 0; i < a->stack_count; i++) {
		struct json_object *stack = json_object_new_object();

		add_estimate(stack, a->stacks[i]);
		json_object_object_add(stack, "frames", report_frames_json(a->stacks[i]->stack));
		json_object_array_add(list, stack);
	}
	json_object_object_add(o, "stacks", list);
	return o;
}

#define add_states(o, r)                                               \
	do {                                                           \
		report_add_number(o, "wall_ns", (r)->total_ns);        \
		report_add_number(o, "running_ns", (r)->running_ns);   \
		report_add_number(o, "runnable_ns", (r)->runnable_ns); \
		report_add_number(o, "syscall_ns", (r)->syscall_ns);   \
		report_add_number(o, "waiting_ns", (r)->waiting_ns);   \
	} while (0)

static struct json_object *place_json(const struct gospect_request_place *p)
{
	struct json_object *o = json_object_new_object();

	report_add_text(o, "state", gospect_state_name(p->state));
	report_add_text(o, "wait", p->wait_reason);
	report_add_number(o, "ns", p->ns);
	report_add_number(o, "count", p->count);
	if (p->waited_ns)
		report_add_number(o, "waited_before_ns", p->waited_ns);
	if (p->state == GOSPECT_RUNNING)
		report_add_number(o, "error_ns", p->error_ns);
	if (p->state == GOSPECT_WAITING)
		json_object_object_add(o, "ended_by",
				       report_wakers_json(p->wakers, p->waker_count));
	json_object_object_add(o, "frames", report_frames_json(p->stack));
	return o;
}

/* Adds where the request was, and its waits by reason. */
static void add_places(struct json_object *o, const struct gospect_request *r)
{
	struct json_object *waits = json_object_new_object(), *list = json_object_new_array();

	for (size_t i = 0; i < r->place_count; i++) {
		const struct gospect_request_place *p = r->places[i];
		struct json_object *sum = NULL;

		json_object_array_add(list, place_json(p));
		if (p->state != GOSPECT_WAITING)
			continue;
		if (json_object_object_get_ex(waits, p->wait_reason, &sum))
			json_object_set_int64(sum, json_object_get_int64(sum) + p->ns);
		else
			report_add_number(waits, p->wait_reason, p->ns);
	}
	json_object_object_add(o, "waits", waits);
	json_object_object_add(o, "stacks", list);
}

static struct json_object *parts_json(const struct gospect_request *r)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < r->part_count; i++) {
		struct json_object *o = json_object_new_object();

		report_add_text(o, "func", r->parts[i].function);
		report_add_number(o, "ns", r->parts[i].ns);
		report_add_number(o, "count", r->parts[i].count);
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *running_json(const struct gospect_running_function *running,
					size_t count)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++) {
		struct json_object *o = json_object_new_object();

		report_add_text(o, "func", running[i].function);
		report_add_number(o, "ns", running[i].ns);
		report_add_number(o, "error_ns", running[i].error_ns);
		report_add_number(o, "samples", running[i].samples);
		json_object_array_add(list, o);
	}
	return list;
}

/* Those that are known. */
static void add_facts_json(struct json_object *o, const struct gospect_request *r)
{
	const struct {
		const char *key, *text;
	} facts[] = {{"method", r->method}, {"path", r->url_path},     {"route", r->route},
		     {"peer", r->peer},     {"trace_id", r->trace_id}, {"span_id", r->span_id}};

	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		if (*facts[i].text)
			report_add_text(o, facts[i].key, facts[i].text);
	if (r->has_status)
		report_add_number(o, "status", r->status);
	/* Of gRPC. */
	if (r->has_status && !isdigit((unsigned char)*r->status_name))
		report_add_text(o, "status_name", r->status_name);
}

static struct json_object *request_json(const struct gospect_request *r,
					const struct report_requests *how)
{
	struct json_object *o = json_object_new_object();

	report_add_text(o, "name", r->name);
	if (how->per)
		report_add_text(o, "per", r->per);
	add_facts_json(o, r);
	report_add_number(o, "goroutine", r->goroutine);
	report_add_number(o, "goroutines", r->goroutines);
	report_add_number(o, "begin_ns", r->begin_ns);
	report_add_number(o, "end_ns", r->end_ns);
	report_add_number(o, "elapsed_ns", r->elapsed_ns);
	if (how->by_function)
		report_add_number(o, "uncertain_ns", r->uncertain_ns);
	json_object_object_add(o, "whole", json_object_new_boolean(!r->is_cut));
	add_states(o, r);
	json_object_object_add(o, "running", running_json(r->running, r->running_count));
	if (r->part_count)
		json_object_object_add(o, "spans", parts_json(r));
	if (r->allocated)
		json_object_object_add(o, "allocated", allocations_json(r->allocated));
	add_places(o, r);
	if (how->paths)
		json_object_object_add(o, "critical_path", report_path_json(r));
	return o;
}

static struct json_object *group_json(const struct gospect_request_group *g)
{
	struct json_object *o = json_object_new_object();

	report_add_text(o, "name", g->name);
	report_add_number(o, "count", g->count);
	report_add_number(o, "cut", g->cut);
	report_add_number(o, "p50_ns", g->p50_ns);
	report_add_number(o, "p90_ns", g->p90_ns);
	report_add_number(o, "p99_ns", g->p99_ns);
	report_add_number(o, "max_ns", g->max_ns);
	add_states(o, g);
	json_object_object_add(o, "running", running_json(g->running, g->running_count));
	if (g->allocated)
		json_object_object_add(o, "allocated", allocated_json(g->allocated));
	return o;
}

static int add_request(void *arg, const struct gospect_request *r)
{
	struct writing *w = arg;

	if (!report_rows_next(&w->rows))
		return 1;
	json_object_array_add(w->rows.list, request_json(r, w->how));
	return 0;
}

static int add_group(void *arg, const struct gospect_request_group *g)
{
	struct writing *w = arg;

	if (!report_rows_next(&w->rows))
		return 1;
	json_object_array_add(w->rows.list, group_json(g));
	return 0;
}

struct error *report_write_requests_json(const struct gospect_requests *requests,
					 const struct report_requests *how, FILE *out)
{
	struct writing w = begin(how, out, json_object_new_array());
	struct error *err =
		library_error(how->groups ? gospect_requests_groups(requests, add_group, &w)
					  : gospect_requests_each(requests, add_request, &w));

	if (!err)
		report_rows_write_list(&w.rows);
	json_object_put(w.rows.list);
	return err;
}
