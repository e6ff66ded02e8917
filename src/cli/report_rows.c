#include "cli/report_rows.h"

#include <json-c/json.h>

#include "base/printable.h"
#include "cli/cli.h"

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
