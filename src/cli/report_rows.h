/* Common parts of the tables and lists of `gospect report`: the number of rows, and JSON. */
#ifndef CLI_REPORT_ROWS_H
#define CLI_REPORT_ROWS_H

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The state of one table while its rows are written. */
struct report_rows {
	size_t limit; /* rows that are shown at most; 0: all */
	FILE *out;
	struct json_object *list; /* NULL: a table */
	size_t count;             /* rows so far, shown or not */
};

/* Counts the next row. False: it is not shown. */
bool report_rows_next(struct report_rows *rows);
/* Prints how many rows were not shown, of rows->count. */
void report_rows_end(const struct report_rows *rows);

void report_add_text(struct json_object *o, const char *key, const char *text);
void report_add_number(struct json_object *o, const char *key, uint64_t value);
/* With nine significant digits. */
void report_add_double(struct json_object *o, const char *key, double value);
/* Writes rows->list, which stays the caller's. */
void report_rows_write_list(const struct report_rows *rows);

#endif
