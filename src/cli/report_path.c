#include "cli/report_path.h"

#include <json-c/json.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/report.h"
#include "cli/report_rows.h"
#include "cli/report_wakers.h"
#include "cli/terminal.h"

/* Segments at one place are added up. GROUPED are distinguished, SHOWN are printed. */
enum { GROUPED = 64, SHOWN = 8 };

struct group {
	const struct gospect_path_segment *first;
	const struct gospect_frame *frame;
	uint64_t ns;
	uint64_t count;
	bool several; /* goroutines */
};

static bool is_part_of(const struct group *g, const struct gospect_path_segment *s,
		       const struct gospect_frame *frame)
{
	const struct gospect_frame *at = g->frame;

	if (g->first->state != s->state || g->first->is_unknown != s->is_unknown ||
	    strcmp(g->first->wait_reason, s->wait_reason) ||
	    strcmp(g->first->function, s->function))
		return false;
	if (!at || !frame)
		return at == frame;
	return at->line == frame->line && !strcmp(at->function, frame->function);
}

static void add_to(struct group *g, const struct gospect_path_segment *s)
{
	g->ns += s->end_ns - s->begin_ns;
	g->count++;
	g->several |= g->first->goroutine != s->goroutine;
}

/* How many groups there are; what does not fit into them is in *ret_rest_ns. */
static size_t group(const struct gospect_request *r, struct group groups[GROUPED],
		    uint64_t *ret_rest_ns)
{
	size_t count = 0;

	for (size_t i = 0; i < r->path_count; i++) {
		const struct gospect_path_segment *s = r->path[i];
		const struct gospect_frame *frame = cause_frame(s->stack);
		size_t k = 0;

		while (k < count && !is_part_of(&groups[k], s, frame))
			k++;
		if (k == GROUPED) {
			*ret_rest_ns += s->end_ns - s->begin_ns;
			continue;
		}
		if (k == count)
			groups[count++] = (struct group){.first = s, .frame = frame};
		add_to(&groups[k], s);
	}
	return count;
}

static int by_time(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return (x->ns < y->ns) - (x->ns > y->ns);
}

static const char *does(const struct gospect_path_segment *s)
{
	if (s->is_unknown)
		return "unknown";
	return *s->wait_reason ? s->wait_reason : gospect_state_name(s->state);
}

static int indent(FILE *out)
{
	return terminal_is_narrow(out) ? 4 : 20;
}

/* A narrow terminal shows functions without the path of their package. */
static const char *name_of(const char *function, FILE *out)
{
	if (!*function)
		return "(none)";
	return terminal_is_narrow(out) ? short_function(function) : function;
}

static void print_group(const struct group *g, uint64_t whole, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const struct gospect_path_segment *s = g->first;
	char time[16];

	strbuf_addf(&line, "%*s %9s  %5.1f%%  %s", indent(out), "", report_time(g->ns, time),
		    whole ? 100.0 * g->ns / whole : 0, does(s));
	if (g->frame) {
		strbuf_adds(&line, s->state == GOSPECT_RUNNING ? " until " : " in ");
		report_add_place(&line, name_of(g->frame->function, out), g->frame->line);
	}
	if (s->depth && g->several)
		strbuf_addf(&line, ", goroutines of %s", name_of(s->function, out));
	else if (s->depth)
		strbuf_addf(&line, ", goroutine %lu (%s)", s->goroutine, name_of(s->function, out));
	if (g->count > 1)
		strbuf_addf(&line, ", %lu times", g->count);
	terminal_write_line(&line, out);
}

void report_print_path(const struct gospect_request *r, FILE *out)
{
	struct group groups[GROUPED];
	uint64_t whole = r->end_ns - r->begin_ns, rest = 0;
	size_t count = group(r, groups, &rest);
	char time[16];

	qsort(groups, count, sizeof(*groups), by_time);
	for (size_t i = 0; i < count && i < SHOWN; i++)
		print_group(&groups[i], whole, out);
	for (size_t i = SHOWN; i < count; i++)
		rest += groups[i].ns;
	if (rest)
		terminal_line(out, "%*s %9s  %5.1f%%  elsewhere", indent(out), "",
			      report_time(rest, time), whole ? 100.0 * rest / whole : 0);
}

static struct json_object *segment_json(const struct gospect_path_segment *s)
{
	struct json_object *o = json_object_new_object();

	report_add_number(o, "begin_ns", s->begin_ns);
	report_add_number(o, "ns", s->end_ns - s->begin_ns);
	report_add_number(o, "goroutine", s->goroutine);
	report_add_text(o, "func", s->function);
	report_add_text(o, "state", s->is_unknown ? "unknown" : gospect_state_name(s->state));
	report_add_text(o, "wait", s->wait_reason);
	report_add_number(o, "depth", s->depth);
	json_object_object_add(o, "frames", report_frames_json(s->stack));
	return o;
}

struct json_object *report_path_json(const struct gospect_request *r)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < r->path_count; i++)
		json_object_array_add(list, segment_json(r->path[i]));
	return list;
}
