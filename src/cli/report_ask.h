/* The question that the user asks of a recorded file, and the output format: shared by the verbs
 * that print tables. */
#ifndef CLI_REPORT_ASK_H
#define CLI_REPORT_ASK_H

#include "cli/output_options.h"
#include "cli/report.h"

struct report_ask {
	struct report_table table;
	bool is_chosen;   /* --by or --root was given */
	bool by_function; /* a row is a request without labels */
	const char *root; /* of --root: a regular expression; NULL: handlers */
	bool defaulted;   /* requests are the default: without any, rows are start functions */
	bool groups;      /* --per was given */
	const char *per;  /* the label's key of --per; NULL: all in one */
	const char *only; /* the label's value of --only */
	enum gospect_format format; /* 0: a table, or JSON */
	bool json;
	const char *source; /* of --source; NULL: none */
	bool wakers;        /* --wakers was given */
	bool machine;       /* --by machine */
	bool paths;         /* --critical-path was given */
	bool per_route;     /* --per route */
	const char *route;  /* of --route: a regular expression; NULL: any */
	double slower;      /* of --slower, in seconds; 0: any */
	bool by_trace;      /* --by trace: a row is all requests of one trace id */
	const char *span;   /* of --span: a regular expression; NULL: none */
	bool against;       /* --against-fast was given */
	bool allocations;   /* --alloc was given */
	bool rows_given;    /* -n was given */
	bool compares;      /* set by the verb: it compares two files */
};

#define REPORT_ASK_INIT          \
	{                        \
		.table.rows = 30 \
	}

/* --by, --root, --per, --route, --slower, --against-fast, --span, --only, --wakers,
 * --critical-path, --alloc, -n,
 * --source: a child parser; its input is struct report_ask. */
extern const struct argp report_ask_argp;

/* Whether --route or --slower was given. */
bool report_ask_selects(const struct report_ask *ask);
/* Decides the format. ERROR_USAGE: options that contradict each other. */
struct error *report_ask_check(struct report_ask *ask, const struct output_options *output,
			       const char *verb) must_check;
/* Reads the requested data of the file, and writes it. */
struct error *report_ask_write(struct report_ask *ask, struct report_file *file,
			       FILE *out) must_check;
/* Without --by, memory is grouped by function. The file was read. */
void report_ask_settle(struct report_ask *ask, const struct report_file *file);
/* Reads what a comparison needs. */
struct error *report_ask_read(const struct report_ask *ask, struct report_file *file) must_check;

#endif
