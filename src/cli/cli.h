/*
 * The command line: a verb is a file that ends in one of these structs; main.c lists them.
 *
 * Messages go to standard error, each line "gospect: ..."; data goes to standard output or a file.
 * Only this room prints, and only main() exits.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <argp.h>

#include <gospect/error.h>

#include "base/error.h"

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* it failed; one line said why */
	EXIT_USAGE = 2,
};

struct verb {
	const char *name;
	const char *summary; /* for the list of verbs: one line */
	/* Sets *ret to its exit status, which is EXIT_DONE before. ERROR_USAGE: wrong options. */
	struct error *(*run)(int argc, char **argv, int *ret);
};

extern const struct verb verb_doctor, verb_dump, verb_heap, verb_leaks, verb_memory, verb_offcpu,
	verb_ps, verb_push, verb_record, verb_report, verb_serve, verb_stack, verb_symbolize,
	verb_top, verb_trace, verb_unwind_info, verb_waits, verb_watch, verb_why;

/* Prints a line "gospect: ..." on standard error; unprintable characters are escaped. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same as a callback for remarks: gospect/target.h. */
void say_remark(void *arg, const char *line);
/* A line that the next one replaces, on a terminal; nothing elsewhere. NULL ends it. */
void say_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* After one second, shows a line "gospect: WHAT, N s" on a terminal, until say_work(NULL) or until
 * gospect prints. It goes on after gospect has given up its privilege. */
void say_work(const char *what);
/* say_work("VERB FILE"). */
void say_work_on(const char *verb, const char *path);

/* Makes summaries print all their numbers. Without this, only a terminal gets short ones. */
void print_all_numbers(void);
bool prints_all_numbers(void);

/* With separators: "10,961". */
const char *count_text(unsigned long count, char text[static 32]);

/* An error of the library as an error of the verb. Consumes err; NULL stays NULL. */
struct error *library_error(struct gospect_error *err) must_check;

/*
 * argp_parse() for a verb: errors come back as ERROR_USAGE instead of being printed. *ret_help is
 * true when help was asked for and printed.
 */
struct error *parse_options(const struct argp *argp, const char *verb, int argc, char **argv,
			    void *input, bool *ret_help) must_check;
/* From inside a parser: reports the wrong option. */
error_t wrong_option(struct argp_state *state, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The whole of the text as a number; false when it is none or out of range. */
bool parse_number(const char *text, double least, double most, double *ret);
/* Likewise, from inside a parser, with a message that has WHAT and the range. */
error_t parse_number_option(const char *arg, double least, double most, double *ret,
			    struct argp_state *state, const char *what);
bool parse_id(const char *text, unsigned long *ret);

#endif
