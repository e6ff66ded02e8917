#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "cli/report.h"

/* Places of a request that are named in the table, and bytes of its name that are shown. */
enum { MAX_PLACES = 3, MAX_NAME = 120 };

/* Functions that say how something waits, and not what for. */
static const char *const machinery[] = {"runtime.",  "sync.",      "time.",    "internal/",
					"os.",       "syscall.",   "net.",     "bufio.",
					"io.",       "context.",   "runtime/", "net/http.",
					"net/poll.", "crypto/tls."};

static const char *state_name(enum trace_status state)
{
	static const char *const names[] = {
		[TRACE_RUNNABLE] = "runnable",
		[TRACE_RUNNING] = "running",
		[TRACE_IN_SYSCALL] = "syscall",
		[TRACE_WAITING] = "waiting",
	};

	return names[state];
}

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

static const char *name_of(const struct report_file *file, uint32_t name)
{
	return intern_get(&file->requests.names, name);
}

static const char *text_of(const struct report_file *file, uint32_t text)
{
	return intern_get(&file->tables.texts, text);
}

static size_t rows_of(const struct report_requests *how, size_t count)
{
	return how->rows && how->rows < count ? how->rows : count;
}

static bool is_machinery(const char *function)
{
	for (size_t i = 0; i < ARRAY_SIZE(machinery); i++)
		if (!strncmp(function, machinery[i], strlen(machinery[i])))
			return true;
	return false;
}

/* The innermost frame that is the program's own, else the innermost. */
static struct span_frame telling_frame(const struct report_file *file, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = span_stack(&file->tables, stack, &count);

	for (size_t i = 0; i < count; i++) {
		struct span_frame frame = span_frame(&file->tables, frames[i]);

		if (!is_machinery(text_of(file, frame.function)))
			return frame;
	}
	return count ? span_frame(&file->tables, frames[0]) : (struct span_frame){0};
}

static void print_places(const struct report_file *file, const struct traced_request *r, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char time[16];

	for (size_t i = 0; i < r->place_count && i < MAX_PLACES; i++) {
		const struct request_place *p = &r->places[i];
		struct span_frame frame = telling_frame(file, p->stack);
		bool waits = p->state == TRACE_WAITING && p->reason;

		strbuf_addf(&line, "%20s %9s  %s", "", report_time(p->ns, time),
			    waits ? text_of(file, p->reason) : state_name(p->state));
		if (frame.function)
			strbuf_addf(&line, " in %s:%u", text_of(file, frame.function), frame.line);
		if (p->count > 1)
			strbuf_addf(&line, ", %lu times", p->count);
		printable_write_line(&line, out);
	}
}

static void print_request(const struct report_file *file, const struct traced_request *r, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char t[6][16];

	strbuf_addf(&line, "%9s%c %9s %9s %9s %9s %9s %5lu  ", report_time(r->elapsed_ns, t[0]),
		    r->cut ? '+' : ' ', report_time(r->total_ns, t[1]),
		    report_time(r->ns[TRACE_RUNNING], t[2]),
		    report_time(r->ns[TRACE_RUNNABLE], t[3]),
		    report_time(r->ns[TRACE_IN_SYSCALL], t[4]),
		    report_time(r->ns[TRACE_WAITING], t[5]), r->goroutines);
	add_name(&line, name_of(file, r->name));
	if (file->wish.root)
		strbuf_addf(&line, " (goroutine %lu at %s)", r->g, report_time(r->begin, t[0]));
	if (r->edge_ns)
		strbuf_addf(&line, " (%s of it uncertain)", report_time(r->edge_ns, t[1]));
	printable_write_line(&line, out);
	print_places(file, r, out);
}

static void print_rest(size_t shown, size_t count, FILE *out)
{
	if (shown < count)
		fprintf(out, "  ... and %zu more; -n sets the number of rows\n", count - shown);
}

static void print_group(const struct report_file *file, const struct request_group *g,
			bool with_name, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char t[4][16];
	double all = g->total_ns ? g->total_ns / 100.0 : 1;

	strbuf_addf(&line, "%9lu %9s %9s %9s %9s %8.1f%% %8.1f%% %8.1f%% %8.1f%%  ", g->count,
		    report_time(g->p50, t[0]), report_time(g->p90, t[1]), report_time(g->p99, t[2]),
		    report_time(g->max, t[3]), g->ns[TRACE_RUNNING] / all,
		    g->ns[TRACE_RUNNABLE] / all, g->ns[TRACE_IN_SYSCALL] / all,
		    g->ns[TRACE_WAITING] / all);
	if (with_name)
		add_name(&line, name_of(file, g->name));
	else
		strbuf_adds(&line, "all");
	if (g->cut)
		strbuf_addf(&line, " (and %lu that began before the trace or ended after it)",
			    g->cut);
	printable_write_line(&line, out);
}

static struct error *write_groups(const struct report_file *file, const struct report_requests *how,
				  FILE *out)
{
	_cleanup_free_ struct request_group *groups = NULL;
	bool named = how->groups && (file->wish.per || file->wish.root);
	size_t count = 0, rows;
	struct error *err = requests_group(&file->requests, &groups, &count);

	if (err)
		return err;
	rows = rows_of(how, count);
	printable_line(out, "%9s %9s %9s %9s %9s %9s %9s %9s %9s  %s", "REQUESTS", "P50", "P90",
		       "P99", "MAX", "RUNNING", "RUNNABLE", "SYSCALL", "BLOCKED",
		       !named           ? ""
		       : file->wish.per ? file->wish.per
					: how->heading);
	for (size_t i = 0; i < rows; i++)
		print_group(file, &groups[i], named, out);
	print_rest(rows, count, out);
	return NULL;
}

static struct error *check(const struct report_file *file)
{
	/* Few rows of a busy server would be taken for all that it did. */
	if (file->requests.by_stacks)
		say("a trace shows a call only if it blocks, makes a system call or is preempted; "
		    "calls that do none of these are missing, unless gospect traced the program "
		    "and hooked the function; labels show all requests");
	if (file->requests.count)
		return NULL;
	if (file->wish.key)
		return error_format(
			ERROR_FAILED,
			"no goroutine in %s has the label %s; only traces by gospect have labels",
			file->path, file->wish.key);
	return error_format(
		ERROR_FAILED,
		"no call in %s of an HTTP or gRPC handler, or of a function that --root matches",
		file->path);
}

struct error *report_write_requests(const struct report_file *file,
				    const struct report_requests *how, FILE *out)
{
	size_t rows = rows_of(how, file->requests.count);
	struct error *err = check(file);

	if (err || how->groups)
		return err ? err : write_groups(file, how, out);
	printable_line(out, "%9s  %9s %9s %9s %9s %9s %5s  %s AND WAITS", "ELAPSED", "TIME",
		       "RUNNING", "RUNNABLE", "SYSCALL", "BLOCKED", "GO", how->heading);
	for (size_t i = 0; i < rows; i++)
		print_request(file, &file->requests.items[i], out);
	print_rest(rows, file->requests.count, out);
	fputc('\n', out);
	return write_groups(file, how, out);
}

/* ---- JSON ---- */

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static void add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

static void add_states(struct json_object *o, const uint64_t ns[TRACE_WAITING + 1], uint64_t total)
{
	add_number(o, "wall_ns", total);
	add_number(o, "running_ns", ns[TRACE_RUNNING]);
	add_number(o, "runnable_ns", ns[TRACE_RUNNABLE]);
	add_number(o, "syscall_ns", ns[TRACE_IN_SYSCALL]);
	add_number(o, "waiting_ns", ns[TRACE_WAITING]);
}

static struct json_object *frames_json(const struct report_file *file, uint32_t stack)
{
	struct json_object *list = json_object_new_array();
	size_t count;
	const uint32_t *frames = span_stack(&file->tables, stack, &count);

	for (size_t i = 0; i < count; i++) {
		struct span_frame frame = span_frame(&file->tables, frames[i]);
		struct json_object *o = json_object_new_object();

		add_text(o, "func", text_of(file, frame.function));
		add_text(o, "file", text_of(file, frame.file));
		add_number(o, "line", frame.line);
		json_object_array_add(list, o);
	}
	return list;
}

/* Where it was, and, by reason, for what it waited. */
static void add_places(struct json_object *o, const struct report_file *file,
		       const struct traced_request *r)
{
	struct json_object *waits = json_object_new_object(), *list = json_object_new_array();

	for (size_t i = 0; i < r->place_count; i++) {
		const struct request_place *p = &r->places[i];
		struct json_object *place = json_object_new_object(), *sum = NULL;
		const char *reason = text_of(file, p->reason);

		add_text(place, "state", state_name(p->state));
		add_text(place, "wait", p->state == TRACE_WAITING ? reason : "");
		add_number(place, "ns", p->ns);
		add_number(place, "count", p->count);
		json_object_object_add(place, "frames", frames_json(file, p->stack));
		json_object_array_add(list, place);
		if (p->state != TRACE_WAITING)
			continue;
		if (json_object_object_get_ex(waits, reason, &sum))
			json_object_set_int64(sum, json_object_get_int64(sum) + p->ns);
		else
			add_number(waits, reason, p->ns);
	}
	json_object_object_add(o, "waits", waits);
	json_object_object_add(o, "stacks", list);
}

static struct json_object *request_json(const struct report_file *file,
					const struct traced_request *r)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "name", name_of(file, r->name));
	if (file->wish.per)
		add_text(o, "per", name_of(file, r->per));
	add_number(o, "goroutine", r->g);
	add_number(o, "goroutines", r->goroutines);
	add_number(o, "begin_ns", r->begin);
	add_number(o, "end_ns", r->end);
	add_number(o, "elapsed_ns", r->elapsed_ns);
	if (file->wish.root)
		add_number(o, "uncertain_ns", r->edge_ns);
	json_object_object_add(o, "whole", json_object_new_boolean(!r->cut));
	add_states(o, r->ns, r->total_ns);
	add_places(o, file, r);
	return o;
}

static struct json_object *group_json(const struct report_file *file, const struct request_group *g)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "name", name_of(file, g->name));
	add_number(o, "count", g->count);
	add_number(o, "cut", g->cut);
	add_number(o, "p50_ns", g->p50);
	add_number(o, "p90_ns", g->p90);
	add_number(o, "p99_ns", g->p99);
	add_number(o, "max_ns", g->max);
	add_states(o, g->ns, g->total_ns);
	return o;
}

struct error *report_write_requests_json(const struct report_file *file,
					 const struct report_requests *how, FILE *out)
{
	_cleanup_free_ struct request_group *groups = NULL;
	struct json_object *list;
	size_t count = file->requests.count;
	struct error *err = check(file);

	if (!err && how->groups)
		err = requests_group(&file->requests, &groups, &count);
	if (err)
		return err;
	list = json_object_new_array();
	for (size_t i = 0; i < rows_of(how, count); i++)
		json_object_array_add(list, groups ? group_json(file, &groups[i])
						   : request_json(file, &file->requests.items[i]));
	report_write_json_list(list, out);
	json_object_put(list);
	return NULL;
}
