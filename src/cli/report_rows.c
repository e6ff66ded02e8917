#include "cli/report_rows.h"

#include <json-c/json.h>

#include "base/array.h"
#include "base/printable.h"
#include "cli/report.h"

/* Longer waits before the trace are printed. */
#define SAID_WAIT_NS 60000000000ull

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

void report_add_place(struct strbuf *line, const char *function, int number)
{
	strbuf_adds(line, function);
	if (number > 0)
		strbuf_addf(line, ":%d", number);
}

void report_add_before(struct strbuf *line, uint64_t waited_ns)
{
	char time[16];

	if (waited_ns >= SAID_WAIT_NS)
		strbuf_addf(line, ", since %s before the trace", report_time(waited_ns, time));
}

bool report_rows_next(struct report_rows *rows)
{
	rows->count++;
	return !rows->limit || rows->count <= rows->limit;
}

void report_rows_end(const struct report_rows *rows)
{
	if (rows->limit && rows->count > rows->limit)
		fprintf(rows->out, "  ... and %zu more; -n sets the number of rows\n",
			rows->count - rows->limit);
}

void report_add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

void report_add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

void report_add_double(struct json_object *o, const char *key, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", value);
	json_object_object_add(o, key, json_object_new_double_s(value, text));
}

void report_rows_write_list(const struct report_rows *rows)
{
	const int how =
		JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;

	say_work(NULL);
	printable_write_json(json_object_to_json_string_ext(rows->list, how), rows->out);
	fputc('\n', rows->out);
}
