/* What somebody wants to know of a recorded file, and in which format: shared by the verbs that
 * print tables. */
#ifndef CLI_REPORT_ASK_H
#define CLI_REPORT_ASK_H

#include "cli/output.h"
#include "cli/report.h"

struct report_ask {
	struct report_table table;
	bool asks_root;   /* --root was given */
	const char *root; /* of --root, or by default: a regular expression; NULL: none */
	regex_t regex;
	bool has_regex;
	bool groups;                         /* --per was given */
	const char *per;                     /* of it: the label's key; NULL: all in one */
	const char *only;                    /* of --only: the label's value */
	const struct profile_format *format; /* NULL: a table, or JSON */
	bool json;
	bool compares; /* the verb's: two files */
};

#define REPORT_ASK_INIT          \
	{                        \
		.table.rows = 30 \
	}

/* --by, --root, --per, --only, -n: a child parser whose input is struct report_ask. */
extern const struct argp report_ask_argp;

/* What contradicts itself is ERROR_USAGE; decides the format. */
struct error *report_ask_check(struct report_ask *ask, const struct output_options *output,
			       const char *verb) must_check;
/* The file is to be opened with this. */
struct report_wish report_ask_wish(const struct report_ask *ask);
struct error *report_ask_write(struct report_ask *ask, const struct report_file *file,
			       FILE *out) must_check;
void report_ask_release(struct report_ask *ask);

#endif
