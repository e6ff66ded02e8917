#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/printable.h"
#include "cli/report.h"

/* Wait reasons of a row that are named at most. */
enum { MAX_WAITS = 3 };

const char *report_time(uint64_t ns, char text[static 16])
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = {{3600e9, "h"}, {60e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && ns < units[i].ns)
		i++;
	snprintf(text, 16, "%.3g %s", ns / units[i].ns, units[i].unit);
	return ns ? text : "-";
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * part / whole : 0;
}

static const char *or_none(const char *name)
{
	return *name ? name : "(none)";
}

static void add_waits(struct strbuf *line, const struct report_file *file, const struct group *g)
{
	char time[16];

	for (size_t i = 0; i < g->wait_count && i < MAX_WAITS; i++) {
		const char *wait = intern_get(&file->profile.profile->strings, g->waits[i].wait);

		strbuf_addf(line, "%s%s %s", i ? ", " : "", or_none(wait),
			    report_time(g->waits[i].ns, time));
	}
	if (g->wait_count > MAX_WAITS)
		strbuf_adds(line, ", ...");
}

static void print_group(const struct report_file *file, const struct groups *groups,
			const struct group *g, bool with_self, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char t[6][16];

	if (!groups->total_ns) {
		printable_line(out, "%6.2f %9lu  %s", percent(g->count, groups->total_count),
			       g->count, or_none(g->name));
		return;
	}
	strbuf_addf(&line, "%6.2f %9s %9s %9s %9s %9s %9s  %-40s ",
		    percent(g->total_ns, groups->total_ns), report_time(g->total_ns, t[0]),
		    report_time(with_self ? g->self_ns : g->cpu_ns, t[1]),
		    report_time(g->state_ns[PROFILE_RUNNING], t[2]),
		    report_time(g->state_ns[PROFILE_RUNNABLE], t[3]),
		    report_time(g->state_ns[PROFILE_SYSCALL], t[4]),
		    report_time(g->state_ns[PROFILE_WAITING], t[5]), or_none(g->name));
	add_waits(&line, file, g);
	printable_write_line(&line, out);
}

static void print_rest(size_t shown, size_t count, FILE *out)
{
	if (shown < count)
		fprintf(out, "  ... and %zu more; -n sets the number of rows\n", count - shown);
}

static size_t rows_of(const struct report_table *table, size_t count)
{
	return table->rows && table->rows < count ? table->rows : count;
}

static const char *heading(const struct report_table *table)
{
	static const char *const headings[] = {
		[GROUP_ROOT] = "START FUNCTION",
		[GROUP_FUNC] = "FUNCTION",
		[GROUP_STATE] = "STATE",
		[GROUP_WAIT] = "WAIT REASON",
	};

	return table->key == GROUP_LABEL ? table->label : headings[table->key];
}

static struct error *write_groups(const struct report_file *file, const struct report_table *table,
				  FILE *out)
{
	_cleanup_groups_ struct groups groups = {0};
	struct error *err = groups_make(file->profile.profile, file->profile.symbols, table->key,
					table->label, &groups);
	bool with_self = table->key == GROUP_FUNC;
	size_t rows = rows_of(table, groups.count);

	if (err)
		return err;
	if (groups.total_ns)
		printable_line(out, "%6s %9s %9s %9s %9s %9s %9s  %-40s %s", "%", "TIME",
			       with_self ? "SELF" : "CPU", "RUNNING", "RUNNABLE", "SYSCALL",
			       "WAITING", heading(table), "WAITED FOR");
	else
		printable_line(out, "%6s %9s  %s", "%", "COUNT", heading(table));
	for (size_t i = 0; i < rows; i++)
		print_group(file, &groups, &groups.items[i], with_self, out);
	print_rest(rows, groups.count, out);
	return NULL;
}

static void print_reasons(const struct report_file *file, const struct summary_row *row, FILE *out)
{
	char time[16];

	for (size_t i = 0; i < row->reason_count; i++)
		printable_line(out, "%50s %9s  %s", "", report_time(row->reasons[i].ns, time),
			       or_none(intern_get(&file->tables.texts, row->reasons[i].reason)));
}

static struct error *write_summary(const struct report_file *file, const struct report_table *table,
				   FILE *out)
{
	const struct summary *s = &file->summary;
	size_t rows = rows_of(table, s->count);
	char t[5][16];

	fprintf(out, "%10s %9s %9s %9s %9s %9s  %s\n", "GOROUTINES", "TIME", "RUNNING", "RUNNABLE",
		"SYSCALL", "BLOCKED", "START FUNCTION AND WAIT REASONS");
	for (size_t i = 0; i < rows; i++) {
		const struct summary_row *r = &s->rows[i];

		printable_line(out, "%10lu %9s %9s %9s %9s %9s  %s", r->goroutines,
			       report_time(r->total_ns, t[0]),
			       report_time(r->ns[TRACE_RUNNING], t[1]),
			       report_time(r->ns[TRACE_RUNNABLE], t[2]),
			       report_time(r->ns[TRACE_IN_SYSCALL], t[3]),
			       report_time(r->ns[TRACE_WAITING], t[4]),
			       or_none(intern_get(&file->tables.texts, r->start)));
		print_reasons(file, r, out);
	}
	print_rest(rows, s->count, out);
	return NULL;
}

struct error *report_write_table(const struct report_file *file, const struct report_table *table,
				 FILE *out)
{
	if (file->is_trace && table->key == GROUP_ROOT)
		return write_summary(file, table, out);
	return write_groups(file, table, out);
}

static struct json_object *text_json(const char *text)
{
	return json_object_new_string(text);
}

static void add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

static struct json_object *group_json(const struct report_file *file, const struct group *g)
{
	struct json_object *o = json_object_new_object(), *waits = json_object_new_object();

	json_object_object_add(o, "name", text_json(g->name));
	add_number(o, "count", g->count);
	add_number(o, "wall_ns", g->total_ns);
	add_number(o, "cpu_ns", g->cpu_ns);
	add_number(o, "self_ns", g->self_ns);
	for (int i = 0; i < PROFILE_STATES; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_ns", profile_state_name(i));
		add_number(o, key, g->state_ns[i]);
	}
	for (size_t i = 0; i < g->wait_count; i++)
		add_number(waits, intern_get(&file->profile.profile->strings, g->waits[i].wait),
			   g->waits[i].ns);
	json_object_object_add(o, "waits", waits);
	return o;
}

static struct json_object *summary_json(const struct report_file *file, const struct summary_row *r)
{
	struct json_object *o = json_object_new_object(), *waits = json_object_new_object();

	json_object_object_add(o, "name", text_json(intern_get(&file->tables.texts, r->start)));
	add_number(o, "goroutines", r->goroutines);
	add_number(o, "wall_ns", r->total_ns);
	add_number(o, "running_ns", r->ns[TRACE_RUNNING]);
	add_number(o, "runnable_ns", r->ns[TRACE_RUNNABLE]);
	add_number(o, "syscall_ns", r->ns[TRACE_IN_SYSCALL]);
	add_number(o, "waiting_ns", r->ns[TRACE_WAITING]);
	for (size_t i = 0; i < r->reason_count; i++)
		add_number(waits, intern_get(&file->tables.texts, r->reasons[i].reason),
			   r->reasons[i].ns);
	json_object_object_add(o, "waits", waits);
	return o;
}

void report_write_json_list(struct json_object *list, FILE *out)
{
	const int how = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED;

	printable_write_json(json_object_to_json_string_ext(list, how), out);
	fputc('\n', out);
}

struct error *report_write_json(const struct report_file *file, const struct report_table *table,
				FILE *out)
{
	_cleanup_groups_ struct groups groups = {0};
	struct json_object *list = json_object_new_array();
	struct error *err = NULL;

	if (file->is_trace && table->key == GROUP_ROOT) {
		for (size_t i = 0; i < rows_of(table, file->summary.count); i++)
			json_object_array_add(list, summary_json(file, &file->summary.rows[i]));
	} else {
		err = groups_make(file->profile.profile, file->profile.symbols, table->key,
				  table->label, &groups);
		for (size_t i = 0; !err && i < rows_of(table, groups.count); i++)
			json_object_array_add(list, group_json(file, &groups.items[i]));
	}
	if (!err)
		report_write_json_list(list, out);
	json_object_put(list);
	return err;
}

/* A row of both profiles; shares in percent. */
struct difference {
	const char *name;
	double before;
	double after;
};

static double share(const struct groups *groups, const struct group *g)
{
	return groups->total_ns ? percent(g->total_ns, groups->total_ns)
				: percent(g->count, groups->total_count);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct difference *)a)->name, ((const struct difference *)b)->name);
}

static int by_difference(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;
	double d = fabs(y->after - y->before) - fabs(x->after - x->before);

	return d > 0 ? 1 : d < 0 ? -1 : strcmp(x->name, y->name);
}

/* Rows of one name become one. */
static size_t join_rows(struct difference *rows, size_t count)
{
	size_t n = 0;

	qsort(rows, count, sizeof(*rows), by_name);
	for (size_t i = 0; i < count; i++) {
		if (n && !strcmp(rows[n - 1].name, rows[i].name)) {
			rows[n - 1].before += rows[i].before;
			rows[n - 1].after += rows[i].after;
		} else {
			rows[n++] = rows[i];
		}
	}
	qsort(rows, n, sizeof(*rows), by_difference);
	return n;
}

struct error *report_write_diff(const struct report_file *before, const struct report_file *after,
				const struct report_table *table, FILE *out)
{
	_cleanup_groups_ struct groups a = {0}, b = {0};
	struct difference *rows;
	size_t count = 0;
	struct error *err;

	err = groups_make(before->profile.profile, before->profile.symbols, table->key,
			  table->label, &a);
	if (!err)
		err = groups_make(after->profile.profile, after->profile.symbols, table->key,
				  table->label, &b);
	if (err)
		return err;
	rows = calloc(a.count + b.count + 1, sizeof(*rows));
	if (!rows)
		return &error_no_memory;
	for (size_t i = 0; i < a.count; i++)
		rows[count++] = (struct difference){a.items[i].name, share(&a, &a.items[i]), 0};
	for (size_t i = 0; i < b.count; i++)
		rows[count++] = (struct difference){b.items[i].name, 0, share(&b, &b.items[i])};
	count = join_rows(rows, count);
	printable_line(out, "%8s %8s %8s  %s", "BEFORE %", "AFTER %", "CHANGE", heading(table));
	for (size_t i = 0; i < rows_of(table, count); i++)
		printable_line(out, "%8.2f %8.2f %+8.2f  %s", rows[i].before, rows[i].after,
			       rows[i].after - rows[i].before, or_none(rows[i].name));
	print_rest(rows_of(table, count), count, out);
	free(rows);
	return NULL;
}
