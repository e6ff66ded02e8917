/*
 * The table of a profile that the runtime keeps: memory by who allocated it, waits by where they
 * were. Its first row is the whole profile.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/report.h"
#include "cli/report_rows.h"
#include "cli/terminal.h"

struct row {
	char *name;
	uint64_t self, total, count;
};

struct value_table {
	struct row *rows;
	size_t count;
	size_t capacity;
	uint64_t all, all_count;
	bool is_bytes;
	bool by_function;
	FILE *out;
};

static void value_table_release(struct value_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->rows[i].name);
	free(t->rows);
}

/* Ends where there is no memory. */
static int add_row(void *arg, const struct gospect_group *g)
{
	struct value_table *t = arg;
	char *name = strdup(*g->name ? g->name : "(none)");

	if (!name || !array_reserve(&t->rows, &t->capacity, t->count + 1)) {
		free(name);
		return 1;
	}
	t->rows[t->count++] = (struct row){name, g->self_ns, g->total_ns, g->count};
	t->all = g->all_ns;
	t->all_count = g->all_count;
	return 0;
}

static int by_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return strcmp(x->name, y->name);
}

static const char *amount(const struct value_table *t, uint64_t value, char text[static 16])
{
	return t->is_bytes ? report_bytes(value, text) : report_time(value, text);
}

static void print_row(const struct value_table *t, const struct row *row)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	double all = t->all ? (double)t->all : 1;
	char text[2][16], count[32];

	if (t->by_function)
		strbuf_addf(&line, "%9s %6.2f ", amount(t, row->self, text[0]),
			    100.0 * (double)row->self / all);
	strbuf_addf(&line, "%9s %6.2f %11s  %s", amount(t, row->total, text[1]),
		    100.0 * (double)row->total / all, count_text(row->count, count),
		    terminal_width(t->out) ? short_function(row->name) : row->name);
	terminal_write_line(&line, t->out);
}

static void print_heading(const struct value_table *t, const struct report_table *table)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (t->by_function)
		strbuf_addf(&line, "%9s %6s ", "SELF", "%");
	strbuf_addf(&line, "%9s %6s %11s  %s", "TOTAL", "%", t->is_bytes ? "OBJECTS" : "EVENTS",
		    report_heading(table));
	terminal_write_line(&line, t->out);
}

struct error *report_write_values(const struct report_file *file, const struct report_table *table,
				  FILE *out)
{
	_cleanup_(value_table_release) struct value_table t = {
		.is_bytes = report_has_bytes(file),
		.by_function = table->key == GOSPECT_GROUP_FUNCTION,
		.out = out,
	};
	struct report_rows rows = {.limit = table->rows, .out = out};
	struct error *err = library_error(
		gospect_profile_groups(file->profile, table->key, table->label, add_row, &t));
	struct row all = {(char *)"(all)", 0, 0, 0};

	if (err)
		return err;
	if (t.by_function && t.count)
		qsort(t.rows, t.count, sizeof(*t.rows), by_self);
	all = (struct row){all.name, t.all, t.all, t.all_count};
	print_heading(&t, table);
	print_row(&t, &all);
	for (size_t i = 0; i < t.count; i++)
		if (report_rows_next(&rows))
			print_row(&t, &t.rows[i]);
	report_rows_end(&rows);
	return NULL;
}
