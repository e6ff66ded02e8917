#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "cli/report.h"
#include "cli/report_rows.h"
#include "cli/report_wakers.h"
#include "cli/terminal.h"

/* The most wait reasons in a row. */
enum { MAX_WAITS = 3 };

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * part / whole : 0;
}

static const char *or_none(const char *name)
{
	return *name ? name : "(none)";
}

static void add_waits(struct strbuf *line, const struct gospect_group *g)
{
	char time[16];

	for (size_t i = 0; i < g->wait_count && i < MAX_WAITS; i++)
		strbuf_addf(line, "%s%s %s", i ? ", " : "", or_none(g->waits[i]->reason),
			    report_time(g->waits[i]->ns, time));
	if (g->wait_count > MAX_WAITS)
		strbuf_adds(line, ", ...");
}

/*
 * The columns that fit into the width. A narrow terminal gets fewer, and functions without the path
 * of their package; a file gets all.
 */
struct layout {
	bool is_narrow; /* without RUNNABLE and SYSCALL */
	bool has_waits;
	bool is_short; /* names of functions are short */
	int name;      /* columns of the name */
};

enum { WIDE_COLUMNS = 66, NARROW_COLUMNS = 46, NAME = 40, LEAST_WAITS = 24 };

static struct layout layout_of(FILE *out)
{
	size_t width = terminal_width(out);
	struct layout l = {.is_narrow = terminal_is_narrow(out),
			   .has_waits = true,
			   .is_short = width,
			   .name = NAME};
	int left = (int)width - (l.is_narrow ? NARROW_COLUMNS : WIDE_COLUMNS) - 3;

	if (!width)
		return l;
	l.has_waits = left >= NAME + LEAST_WAITS;
	l.name = left < NAME ? (left < 1 ? 1 : left) : NAME;
	return l;
}

static void add_columns(struct strbuf *line, const struct layout *l, const char *const text[7])
{
	for (size_t i = 0; i < 7; i++) {
		if (l->is_narrow && (i == 4 || i == 5))
			continue;
		strbuf_addf(line, i ? " %9s" : "%6s", text[i]);
	}
	strbuf_adds(line, "  ");
}

static void add_group_name(struct strbuf *line, const struct layout *l, const char *name)
{
	const char *shown = or_none(l->is_short ? short_function(name) : name);

	if (l->has_waits)
		strbuf_addf(line, "%-*s ", l->name, shown);
	else
		strbuf_adds(line, shown);
}

static void print_group(const struct gospect_group *g, bool with_self, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const struct layout l = layout_of(out);
	char t[6][16], share[16];

	snprintf(share, sizeof(share), "%.2f",
		 g->all_ns ? percent(g->total_ns, g->all_ns) : percent(g->count, g->all_count));
	if (!g->all_ns) {
		strbuf_addf(&line, "%6s %9lu  %s", share, g->count,
			    or_none(l.is_short ? short_function(g->name) : g->name));
		terminal_write_line(&line, out);
		return;
	}
	add_columns(&line, &l,
		    (const char *const[7]){share, report_time(g->total_ns, t[0]),
					   report_time(with_self ? g->self_ns : g->cpu_ns, t[1]),
					   report_time(g->state_ns[GOSPECT_RUNNING], t[2]),
					   report_time(g->state_ns[GOSPECT_RUNNABLE], t[3]),
					   report_time(g->state_ns[GOSPECT_SYSCALL], t[4]),
					   report_time(g->state_ns[GOSPECT_WAITING], t[5])});
	add_group_name(&line, &l, g->name);
	if (l.has_waits)
		add_waits(&line, g);
	terminal_write_line(&line, out);
}

/* The state of a table or a list while its rows are written. */
struct writing {
	const struct report_table *table;
	struct report_rows rows;
	bool is_bytes;
};

static struct writing begin(const struct report_table *table, FILE *out, struct json_object *list)
{
	return (struct writing){table, {table->rows, out, list, 0}, false};
}

static void print_heading(const struct report_table *table, bool timed, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const struct layout l = layout_of(out);
	const char *own = table->key == GOSPECT_GROUP_FUNCTION ? "SELF" : "CPU";

	if (timed) {
		add_columns(&line, &l,
			    (const char *const[7]){"%", "TIME", own, "RUNNING", "RUNNABLE",
						   "SYSCALL", "WAITING"});
		add_group_name(&line, &l, report_heading(table));
		strbuf_adds(&line, l.has_waits ? "WAITED FOR" : "");
	} else {
		strbuf_addf(&line, "%6s %9s  %s", "%", "COUNT", report_heading(table));
	}
	terminal_write_line(&line, out);
}

static int write_group(void *arg, const struct gospect_group *g)
{
	struct writing *w = arg;

	if (!w->rows.count)
		print_heading(w->table, g->all_ns, w->rows.out);
	if (report_rows_next(&w->rows))
		print_group(g, w->table->key == GOSPECT_GROUP_FUNCTION, w->rows.out);
	return 0;
}

static struct error *write_groups(const struct report_file *file, const struct report_table *table,
				  FILE *out)
{
	struct writing w = begin(table, out, NULL);
	struct error *err = library_error(
		gospect_profile_groups(file->profile, table->key, table->label, write_group, &w));

	if (err)
		return err;
	if (!w.rows.count)
		print_heading(table, false, out);
	report_rows_end(&w.rows);
	return NULL;
}

/* ---- goroutines of a trace ---- */

static void print_starts_heading(FILE *out)
{
	bool narrow = terminal_is_narrow(out);
	int width = narrow ? 8 : 9;

	terminal_line(out, "%10s %*s %*s %s%*s  %s", "GOROUTINES", width, "TIME", width, "RUNNING",
		      narrow ? "" : " RUNNABLE   SYSCALL ", width, "BLOCKED",
		      "START FUNCTION AND WAIT REASONS");
}

static void print_start(const struct gospect_start *s, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	bool narrow = terminal_is_narrow(out);
	int width = narrow ? 8 : 9;
	char t[5][16];

	strbuf_addf(&line, "%10lu %*s %*s ", s->goroutines, width, report_time(s->total_ns, t[0]),
		    width, report_time(s->running_ns, t[1]));
	if (!narrow)
		strbuf_addf(&line, "%9s %9s ", report_time(s->runnable_ns, t[2]),
			    report_time(s->syscall_ns, t[3]));
	strbuf_addf(&line, "%*s  %s", width, report_time(s->waiting_ns, t[4]),
		    or_none(narrow ? short_function(s->name) : s->name));
	terminal_write_line(&line, out);
}

static void print_wakers(const struct gospect_wait *wait, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!wait->waker_count)
		return;
	strbuf_addf(&line, "%*s ", terminal_is_narrow(out) ? 39 : 62, "");
	report_add_wakers(&line, wait->wakers, wait->waker_count, wait->ns,
			  terminal_is_narrow(out));
	terminal_write_line(&line, out);
}

static int write_start(void *arg, const struct gospect_start *s)
{
	struct writing *w = arg;
	FILE *out = w->rows.out;
	char time[16];

	if (!w->rows.count)
		print_starts_heading(out);
	if (!report_rows_next(&w->rows))
		return 0;
	print_start(s, out);
	for (size_t i = 0; i < s->wait_count; i++) {
		_cleanup_strbuf_ struct strbuf before = STRBUF_INIT;

		report_add_before(&before, s->waits[i]->waited_ns);
		terminal_line(out, "%*s %9s  %s%s", terminal_is_narrow(out) ? 27 : 50, "",
			      report_time(s->waits[i]->ns, time), or_none(s->waits[i]->reason),
			      before.data);
		print_wakers(s->waits[i], out);
	}
	return 0;
}

static struct error *read_starts(const struct report_file *file,
				 int (*start)(void *arg, const struct gospect_start *start),
				 struct writing *w)
{
	const struct gospect_recorded_options how = {.size = sizeof(how),
						     .name = file->path,
						     .remark = say_remark};
	struct gospect_error *err =
		gospect_recorded_starts(file->bytes, file->size, &how, start, w);

	return report_file_error(file, library_error(err));
}

static struct error *write_starts(const struct report_file *file, const struct report_table *table,
				  FILE *out)
{
	struct writing w = begin(table, out, NULL);
	struct error *err = read_starts(file, write_start, &w);

	if (err)
		return err;
	if (!w.rows.count)
		print_starts_heading(out);
	report_rows_end(&w.rows);
	return NULL;
}

static bool is_of_starts(const struct report_file *file, const struct report_table *table)
{
	return table->key == GOSPECT_GROUP_ROOT && !file->profile && report_file_is_trace(file);
}

struct error *report_write_table(const struct report_file *file, const struct report_table *table,
				 FILE *out)
{
	if (is_of_starts(file, table))
		return write_starts(file, table, out);
	return report_has_values(file) ? report_write_values(file, table, out)
				       : write_groups(file, table, out);
}

/* ---- JSON ---- */

static struct json_object *waits_json(const struct gospect_wait *const *waits, size_t count)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < count; i++)
		report_add_number(o, waits[i]->reason, waits[i]->ns);
	return o;
}

static struct json_object *waited_json(const struct gospect_wait *const *waits, size_t count)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < count; i++)
		if (waits[i]->waited_ns)
			report_add_number(o, waits[i]->reason, waits[i]->waited_ns);
	return o;
}

static struct json_object *ended_json(const struct gospect_wait *const *waits, size_t count)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < count; i++)
		json_object_object_add(o, waits[i]->reason,
				       report_wakers_json(waits[i]->wakers, waits[i]->waker_count));
	return o;
}

static int add_group(void *arg, const struct gospect_group *g)
{
	struct json_object *o = json_object_new_object();
	struct writing *w = arg;

	if (!report_rows_next(&w->rows)) {
		json_object_put(o);
		return 1;
	}
	report_add_text(o, "name", g->name);
	report_add_number(o, "count", g->count);
	json_object_array_add(w->rows.list, o);
	if (w->is_bytes) {
		report_add_number(o, "bytes", g->total_ns);
		report_add_number(o, "self_bytes", g->self_ns);
		return 0;
	}
	report_add_number(o, "wall_ns", g->total_ns);
	report_add_number(o, "cpu_ns", g->cpu_ns);
	report_add_number(o, "self_ns", g->self_ns);
	for (int i = GOSPECT_RUNNING; i <= GOSPECT_WAITING; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_ns", gospect_state_name((enum gospect_state)i));
		report_add_number(o, key, g->state_ns[i]);
	}
	json_object_object_add(o, "waits", waits_json(g->waits, g->wait_count));
	return 0;
}

static int add_start(void *arg, const struct gospect_start *s)
{
	struct json_object *o = json_object_new_object();
	struct writing *w = arg;

	if (!report_rows_next(&w->rows)) {
		json_object_put(o);
		return 1;
	}
	report_add_text(o, "name", s->name);
	report_add_number(o, "goroutines", s->goroutines);
	report_add_number(o, "wall_ns", s->total_ns);
	report_add_number(o, "running_ns", s->running_ns);
	report_add_number(o, "runnable_ns", s->runnable_ns);
	report_add_number(o, "syscall_ns", s->syscall_ns);
	report_add_number(o, "waiting_ns", s->waiting_ns);
	json_object_object_add(o, "waits", waits_json(s->waits, s->wait_count));
	json_object_object_add(o, "waited_before_ns", waited_json(s->waits, s->wait_count));
	json_object_object_add(o, "ended_by", ended_json(s->waits, s->wait_count));
	json_object_array_add(w->rows.list, o);
	return 0;
}

struct error *report_write_json(const struct report_file *file, const struct report_table *table,
				FILE *out)
{
	struct writing w = begin(table, out, json_object_new_array());
	struct error *err;

	w.is_bytes = report_has_bytes(file);
	if (is_of_starts(file, table))
		err = read_starts(file, add_start, &w);
	else
		err = library_error(gospect_profile_groups(file->profile, table->key, table->label,
							   add_group, &w));
	if (!err)
		report_rows_write_list(&w.rows);
	json_object_put(w.rows.list);
	return err;
}
