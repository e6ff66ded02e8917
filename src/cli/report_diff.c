/* Compares two profiles in one table: shares, and numbers of goroutines. */
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/report.h"
#include "cli/report_rows.h"
#include "cli/terminal.h"

/* The text of one side of a row. */
struct side {
	double percent;
	double amount; /* goroutines; or seconds, if a profile lacks its duration; or bytes */
};

struct difference {
	char *name;
	struct side before;
	struct side after;
};

struct differences {
	struct difference *rows;
	size_t count;
	size_t capacity;
	bool is_after;   /* the next rows are those of the second profile */
	double seconds;  /* the duration of its profile; 0: not known */
	bool comparable; /* amounts are of goroutines, or bytes, in both */
	bool is_bytes;
};

static void differences_release(struct differences *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->rows[i].name);
	free(d->rows);
}
#define _cleanup_differences_ _cleanup_(differences_release)

static struct side side_of(const struct gospect_group *g, bool is_bytes, double seconds)
{
	if (is_bytes)
		return (struct side){g->all_ns ? 100.0 * g->total_ns / g->all_ns : 0, g->total_ns};
	if (!g->all_ns)
		return (struct side){g->all_count ? 100.0 * g->count / g->all_count : 0, g->count};
	return (struct side){100.0 * g->total_ns / g->all_ns,
			     g->total_ns / 1e9 / (seconds > 0 ? seconds : 1)};
}

/* Stops when there is no memory. */
static int add_side(void *arg, const struct gospect_group *g)
{
	struct differences *d = arg;
	char *name = strdup(*g->name ? g->name : "(none)");
	struct difference *row;

	if (!name || !array_reserve(&d->rows, &d->capacity, d->count + 1)) {
		free(name);
		return 1;
	}
	row = &d->rows[d->count++];
	*row = (struct difference){.name = name};
	*(d->is_after ? &row->after : &row->before) = side_of(g, d->is_bytes, d->seconds);
	d->comparable &= d->is_bytes || !g->all_ns || d->seconds > 0;
	return 0;
}

static struct error *must_check add_profile(struct differences *d, const struct report_file *file,
					    const struct report_table *table)
{
	d->seconds = gospect_profile_info(file->profile)->duration_ns / 1e9;
	d->is_bytes = report_has_bytes(file);
	return library_error(
		gospect_profile_groups(file->profile, table->key, table->label, add_side, d));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct difference *)a)->name, ((const struct difference *)b)->name);
}

static int compare(const struct difference *x, const struct difference *y, double d)
{
	return d > 0 ? 1 : d < 0 ? -1 : strcmp(x->name, y->name);
}

static int by_percent(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;

	return compare(x, y,
		       fabs(y->after.percent - y->before.percent) -
			       fabs(x->after.percent - x->before.percent));
}

/* Orders rows by amount: if all goroutines have one start function, a leak changes no share. */
static int by_amount(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;

	return compare(x, y,
		       fabs(y->after.amount - y->before.amount) -
			       fabs(x->after.amount - x->before.amount));
}

static void add(struct side *to, const struct side *from)
{
	to->percent += from->percent;
	to->amount += from->amount;
}

/* Joins rows of one name. The rest of the array lies behind them and keeps its names. */
static size_t join_rows(struct differences *d)
{
	struct difference *rows = d->rows;
	size_t n = 0;

	if (!d->count)
		return 0;
	qsort(rows, d->count, sizeof(*rows), by_name);
	for (size_t i = 0; i < d->count; i++) {
		if (n && !strcmp(rows[n - 1].name, rows[i].name)) {
			add(&rows[n - 1].before, &rows[i].before);
			add(&rows[n - 1].after, &rows[i].after);
		} else {
			struct difference row = rows[n];

			rows[n++] = rows[i];
			rows[i] = row;
		}
	}
	qsort(rows, n, sizeof(*rows), d->comparable ? by_amount : by_percent);
	return n;
}

/* "372", "12.5": a number of goroutines, or their average. */
static const char *amount_text(double amount, bool sign, char text[static 24])
{
	bool whole = fabs(amount - round(amount)) < 1e-9 || fabs(amount) >= 1000;

	snprintf(text, 24,
		 !amount ? "%.0f"
		 : whole ? (sign ? "%+.0f" : "%.0f")
			 : (sign ? "%+.3g" : "%.3g"),
		 amount);
	return text;
}

static const char *size_text(double bytes, bool sign, char text[static 24])
{
	char size[16];

	snprintf(text, 24, "%s%s",
		 bytes < 0           ? "-"
		 : bytes > 0 && sign ? "+"
				     : "",
		 report_bytes((uint64_t)fabs(bytes), size));
	return text;
}

static const char *side_text(const struct differences *d, double amount, bool sign,
			     char text[static 24])
{
	return d->is_bytes ? size_text(amount, sign, text) : amount_text(amount, sign, text);
}

static void print_row(const struct differences *d, const struct difference *row, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char t[3][24];

	strbuf_addf(&line, "%8.2f %8.2f %+8.2f ", row->before.percent, row->after.percent,
		    row->after.percent - row->before.percent);
	if (d->comparable)
		strbuf_addf(&line, " %8s %8s %10s ", side_text(d, row->before.amount, false, t[0]),
			    side_text(d, row->after.amount, false, t[1]),
			    side_text(d, row->after.amount - row->before.amount, true, t[2]));
	strbuf_addf(&line, " %s", terminal_width(out) ? short_function(row->name) : row->name);
	terminal_write_line(&line, out);
}

static void print_rows(const struct differences *d, size_t count, const struct report_table *table,
		       FILE *out)
{
	struct report_rows rows = {.limit = table->rows, .out = out};
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_addf(&line, "%8s %8s %8s ", "BEFORE %", "AFTER %", "CHANGE");
	if (d->comparable)
		strbuf_addf(&line, " %8s %8s %10s ", "BEFORE", "AFTER",
			    d->is_bytes ? "BYTES" : "GOROUTINES");
	strbuf_addf(&line, " %s", report_heading(table));
	terminal_write_line(&line, out);
	for (size_t i = 0; i < count; i++)
		if (report_rows_next(&rows))
			print_row(d, &d->rows[i], out);
	report_rows_end(&rows);
}

static void add_side_json(struct json_object *o, const char *percent, const char *goroutines,
			  const struct side *side, bool comparable)
{
	report_add_double(o, percent, side->percent);
	if (comparable)
		report_add_double(o, goroutines, side->amount);
}

static void write_json(const struct differences *d, size_t count, const struct report_table *table,
		       FILE *out)
{
	struct report_rows rows = {table->rows, out, json_object_new_array(), 0};

	for (size_t i = 0; i < count && report_rows_next(&rows); i++) {
		const struct difference *row = &d->rows[i];
		const struct side change = {row->after.percent - row->before.percent,
					    row->after.amount - row->before.amount};
		struct json_object *o = json_object_new_object();

		report_add_text(o, "name", row->name);
		add_side_json(o, "before_percent",
			      d->is_bytes ? "before_bytes" : "before_goroutines", &row->before,
			      d->comparable);
		add_side_json(o, "after_percent", d->is_bytes ? "after_bytes" : "after_goroutines",
			      &row->after, d->comparable);
		add_side_json(o, "change_percent",
			      d->is_bytes ? "change_bytes" : "change_goroutines", &change,
			      d->comparable);
		json_object_array_add(rows.list, o);
	}
	report_rows_write_list(&rows);
	json_object_put(rows.list);
}

struct error *report_write_diff(const struct report_file *before, const struct report_file *after,
				const struct report_table *table, bool json, FILE *out)
{
	_cleanup_differences_ struct differences d = {.comparable = true};
	struct error *err = add_profile(&d, before, table);

	d.is_after = true;
	if (!err)
		err = add_profile(&d, after, table);
	if (err)
		return err;
	if (json)
		write_json(&d, join_rows(&d), table, out);
	else
		print_rows(&d, join_rows(&d), table, out);
	return NULL;
}
