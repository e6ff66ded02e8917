#include "cli/report_wakers.h"

#include <json-c/json.h>
#include <string.h>

#include "base/array.h"
#include "cli/report.h"
#include "cli/report_rows.h"
#include "cli/terminal.h"

/* Functions that implement waiting: they do not show what for. */
static const char *const machinery[] = {"runtime.",  "sync.",      "time.",    "internal/",
					"os.",       "syscall.",   "net.",     "bufio.",
					"io.",       "context.",   "runtime/", "net/http.",
					"net/poll.", "crypto/tls."};

static bool is_machinery(const char *function)
{
	for (size_t i = 0; i < ARRAY_SIZE(machinery); i++)
		if (!strncmp(function, machinery[i], strlen(machinery[i])))
			return true;
	return false;
}

const struct gospect_frame *cause_frame(const struct gospect_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++)
		if (!is_machinery(stack->frames[i]->function))
			return stack->frames[i];
	return stack->count ? stack->frames[0] : NULL;
}

/* ---- text ---- */

/* Wakers at one line of the program, or of one cause: GROUPED are distinguished, SHOWN are printed.
 */
enum { GROUPED = 16, SHOWN = 2 };

struct group {
	const struct gospect_frame *frame; /* NULL: not known, or no goroutine */
	const char *cause;
	uint64_t goroutine;
	uint64_t goroutines;
	uint64_t ns;
	uint64_t count;
};

static bool is_same_place(const struct gospect_frame *a, const struct gospect_frame *b)
{
	if (!a || !b)
		return a == b;
	return a->line == b->line && !strcmp(a->function, b->function);
}

static struct group *group_of(struct group *groups, size_t *count, const struct gospect_waker *w)
{
	const struct gospect_frame *frame = cause_frame(w->stack);
	size_t i;

	for (i = 0; i < *count; i++)
		if (is_same_place(groups[i].frame, frame) && !strcmp(groups[i].cause, w->cause))
			return &groups[i];
	if (i == GROUPED)
		return NULL;
	groups[i] = (struct group){.frame = frame, .cause = w->cause, .goroutine = w->goroutine};
	*count = i + 1;
	return &groups[i];
}

static void add_to(struct group *g, const struct gospect_waker *w)
{
	g->goroutines += w->goroutine == GOSPECT_SEVERAL_GOROUTINES ? 2 : 1;
	g->ns += w->ns;
	g->count += w->count;
}

/* Sorts the longest to the front. */
static void sort_first(struct group *groups, size_t count, size_t first)
{
	for (size_t i = first + 1; i < count; i++) {
		if (groups[i].ns > groups[first].ns) {
			const struct group g = groups[i];

			groups[i] = groups[first];
			groups[first] = g;
		}
	}
}

/* One of those in parentheses, if it applies. */
static void add_detail(struct strbuf *line, int *count, bool applies, const char *before,
		       uint64_t number, const char *after)
{
	if (applies)
		strbuf_addf(line, "%s%s%lu%s", (*count)++ ? ", " : " (", before, number, after);
}

static void add_group(struct strbuf *line, const struct group *g, bool with_time, bool narrow)
{
	const char *function = g->frame ? g->frame->function : "a goroutine at an unknown place";
	int details = 0;
	char time[16];

	if (narrow)
		function = short_function(function);

	if (*g->cause)
		strbuf_addf(line, "%s %s", strcmp(g->cause, "timer") ? "the" : "a", g->cause);
	else
		report_add_place(line, function, g->frame ? g->frame->line : 0);
	add_detail(line, &details, !*g->cause && g->goroutines == 1, "goroutine ", g->goroutine,
		   "");
	add_detail(line, &details, g->count > 1, "", g->count, " times");
	if (with_time)
		strbuf_addf(line, "%s%s", details++ ? ", " : " (", report_time(g->ns, time));
	strbuf_adds(line, details ? ")" : "");
}

void report_add_wakers(struct strbuf *line, const struct gospect_waker *const *wakers, size_t count,
		       uint64_t ns, bool narrow)
{
	struct group groups[GROUPED];
	size_t grouped = 0, left = 0;

	for (size_t i = 0; i < count; i++) {
		struct group *g = group_of(groups, &grouped, wakers[i]);

		if (g)
			add_to(g, wakers[i]);
		left += !g;
	}
	if (!grouped)
		return;
	strbuf_adds(line, "ended by ");
	for (size_t i = 0; i < grouped && i < SHOWN; i++) {
		sort_first(groups, grouped, i);
		strbuf_adds(line, i ? ", " : "");
		add_group(line, &groups[i], groups[i].ns != ns, narrow);
	}
	if (grouped > SHOWN || left)
		strbuf_adds(line, ", ...");
}

/* ---- JSON ---- */

struct json_object *report_frames_json(const struct gospect_stack *stack)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < stack->count; i++) {
		const struct gospect_frame *frame = stack->frames[i];
		struct json_object *o = json_object_new_object();

		report_add_text(o, "func", frame->function);
		report_add_text(o, "file", frame->file);
		report_add_number(o, "line", frame->line);
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *waker_json(const struct gospect_waker *w)
{
	struct json_object *o = json_object_new_object();
	const struct gospect_frame *frame = cause_frame(w->stack);

	if (w->goroutine == GOSPECT_SEVERAL_GOROUTINES)
		json_object_object_add(o, "goroutine", NULL);
	else
		report_add_number(o, "goroutine", w->goroutine);
	report_add_text(o, "func", frame ? frame->function : "");
	if (*w->cause)
		report_add_text(o, "cause", w->cause);
	report_add_number(o, "ns", w->ns);
	report_add_number(o, "count", w->count);
	json_object_object_add(o, "frames", report_frames_json(w->stack));
	return o;
}

struct json_object *report_wakers_json(const struct gospect_waker *const *wakers, size_t count)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++)
		json_object_array_add(list, waker_json(wakers[i]));
	return list;
}
