#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/printable.h"

static volatile sig_atomic_t progress_shown;

/* For say_work(): the text that the signal's handler shows. */
static char work_text[120];
static size_t work_length;
static volatile sig_atomic_t work_seconds;

/* Each second; async-signal-safe. */
static void show_work(int number)
{
	char line[sizeof(work_text) + 40] = "\r\x1b[Kgospect: ", digits[12];
	size_t at = strlen(line), n = 0;

	if (!work_length)
		return;
	memcpy(line + at, work_text, work_length);
	at += work_length;
	for (int left = ++work_seconds; left && n < sizeof(digits); left /= 10)
		digits[n++] = '0' + left % 10;
	line[at++] = ',';
	line[at++] = ' ';
	while (n)
		line[at++] = digits[--n];
	line[at++] = ' ';
	line[at++] = 's';
	progress_shown = 1;
	(void)!write(STDERR_FILENO, line, at);
}

void say_work(const char *what)
{
	struct itimerval each = {{1, 0}, {1, 0}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = show_work, .sa_flags = SA_RESTART};
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!what) {
		if (work_length)
			setitimer(ITIMER_REAL, &never, NULL);
		work_length = 0;
		say_progress(NULL);
		return;
	}
	if (!isatty(STDERR_FILENO))
		return;
	printable_adds(&text, what);
	work_length = text.length < sizeof(work_text) ? text.length : sizeof(work_text);
	memcpy(work_text, text.data, work_length);
	work_seconds = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
}

void say(const char *format, ...)
{
	va_list args;

	if (progress_shown)
		fputs("\r\x1b[K", stderr);
	progress_shown = false;
	fputs("gospect: ", stderr);
	va_start(args, format);
	printable_vline(stderr, format, args);
	va_end(args);
}

void say_progress(const char *format, ...)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	_cleanup_free_ char *text = NULL;
	va_list args;

	if (!isatty(STDERR_FILENO))
		return;
	if (progress_shown)
		fputs("\r\x1b[K", stderr);
	progress_shown = format != NULL;
	if (!format)
		return;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	printable_adds(&line, text ? text : "");
	fprintf(stderr, "gospect: %s", line.data);
	fflush(stderr);
}

void say_work_on(const char *verb, const char *path)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "%s %s", verb, path);
	say_work(text.data);
}

void say_remark(void *arg, const char *line)
{
	say("%s", line);
}

static bool all_numbers;

void print_all_numbers(void)
{
	all_numbers = true;
}

bool prints_all_numbers(void)
{
	return all_numbers || !isatty(STDERR_FILENO);
}

const char *count_text(unsigned long count, char text[static 32])
{
	char digits[24];
	size_t n = snprintf(digits, sizeof(digits), "%lu", count), at = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = 0;
	return text;
}

struct error *library_error(struct gospect_error *err)
{
	struct error *ret;

	if (!err)
		return NULL;
	ret = error_format((enum error_code)gospect_error_code(err), "%s",
			   gospect_error_message(err));
	gospect_error_destroy(err);
	return ret;
}

/* Replaces argp's own lines about wrong options. */
struct parse {
	void *input;
	struct error *err;
	bool help;
};

static struct parse *current;

error_t wrong_option(struct argp_state *state, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		text = NULL;
	if (current && !current->err)
		current->err = error_format(ERROR_USAGE, "%s", text ? text : "wrong option");
	return EINVAL;
}

/* Leaves out argp's own note about short options. */
static char *filter_help(int key, const char *text, void *input)
{
	return key == ARGP_KEY_HELP_DUP_ARGS_NOTE ? NULL : (char *)text;
}

/* argp prints no help while its errors are off. */
static void print_help(struct argp_state *state)
{
	state->flags &= ~ARGP_NO_ERRS;
	argp_state_help(state, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC);
	state->flags |= ARGP_NO_ERRS;
}

static error_t parse_outer(int key, char *arg, struct argp_state *state)
{
	struct parse *parse = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = parse->input;
		return 0;
	case 'h':
		parse->help = true;
		print_help(state);
		state->next = state->argc;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* The option of this name or letter, in a parser or its children. */
static const struct argp_option *find_option(const struct argp *argp, const char *name,
					     size_t length, int letter)
{
	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (letter ? o->key == letter
			   : o->name && !strncmp(o->name, name, length) && !o->name[length])
			return o;
	for (const struct argp_child *c = argp->children; c && c->argp; c++) {
		const struct argp_option *o = find_option(c->argp, name, length, letter);

		if (o)
			return o;
	}
	return NULL;
}

/* argp says only that something was wrong: this says what. */
static struct error *explain(const struct argp *argp, const char *verb, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		const char *word = argv[i];
		bool is_long = word[0] == '-' && word[1] == '-';
		size_t length = is_long ? strcspn(word + 2, "=") : 1;
		const struct argp_option *o;

		if (word[0] != '-' || !word[1])
			continue;
		o = find_option(argp, word + 2, length, is_long ? 0 : word[1]);
		if (!o)
			return error_format(ERROR_USAGE,
					    "%s: unknown option '%s'; see `gospect %s --help`",
					    verb, word, verb);
		if (o->arg && !word[is_long ? 2 + length : 2] && ++i == argc)
			return error_format(ERROR_USAGE,
					    "%s: option '%s' needs %s; see `gospect %s --help`",
					    verb, word, o->arg, verb);
	}
	return error_format(ERROR_USAGE, "%s: invalid options; see `gospect %s --help`", verb,
			    verb);
}

struct error *parse_options(const struct argp *argp, const char *verb, int argc, char **argv,
			    void *input, bool *ret_help)
{
	static const struct argp_option options[] = {{"help", 'h', NULL, 0,
						      "Print this help and exit", -1},
						     {0}};
	struct argp_child children[] = {{argp, 0, NULL, 0}, {0}};
	struct argp outer = {options, parse_outer, NULL, NULL, children, filter_help, NULL};
	struct parse parse = {.input = input};
	_cleanup_free_ char *name = NULL;
	error_t failed;

	if (asprintf(&name, "gospect %s", verb) < 0)
		return &error_no_memory;
	argv[0] = name;
	current = &parse;
	failed = argp_parse(&outer, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, NULL,
			    &parse);
	current = NULL;
	*ret_help = parse.help;
	if (parse.err)
		return error_wrap(parse.err, "%s", verb);
	return failed ? explain(&outer, verb, argc, argv) : NULL;
}

bool parse_number(const char *text, double least, double most, double *ret)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= least && value <= most))
		return false;
	*ret = value;
	return true;
}

error_t parse_number_option(const char *arg, double least, double most, double *ret,
			    struct argp_state *state, const char *what)
{
	if (!parse_number(arg, least, most, ret))
		return wrong_option(state, "invalid %s '%s' (%g to %g)", what, arg, least, most);
	return 0;
}

bool parse_id(const char *text, unsigned long *ret)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (end == text || *end || *text == '-' || errno || !value)
		return false;
	*ret = value;
	return true;
}
