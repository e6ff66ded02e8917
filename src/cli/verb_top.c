#include <errno.h>
#include <fcntl.h>
#include <gospect/top.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/common_options.h"
#include "cli/format_names.h"
#include "cli/screen.h"
#include "cli/stop.h"

/* The pause while nothing is sampled. */
#define REST_MS 500

enum { KEY_BUDGET = 0x8000, KEY_RUNTIME };

struct top_verb {
	struct common_options request;
	double budget; /* percent */
	bool all;
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Recording:", 4},
	 {"budget", KEY_BUDGET, "PERCENT", 0,
	  "Use at most this share of one core (1). With too many goroutines gospect samples a "
	  "random part of them",
	  4},
	 {"runtime", KEY_RUNTIME, NULL, 0, "Show the runtime's own goroutines too", 4},
	 {"all", 0, NULL, OPTION_ALIAS, NULL, 4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		return 0;
	case KEY_BUDGET:
		if (!parse_number(arg, 0.01, 100, &v->budget))
			return wrong_option(state, "invalid budget '%s' (0.01 to 100)", arg);
		return 0;
	case KEY_RUNTIME:
		v->all = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp =
	{options,
	 parse,
	 "PID|NAME\n-- COMMAND ARGS...",
	 "Shows live, in the terminal, what a Go program does: what stands "
	 "out, requests, functions, waits, creators, labels. Press ? for the "
	 "keys and q to quit.\v"
	 "Key w writes a profile of the last minute. It asks for a name and "
	 "proposes FILE (-o). Any other file must be new, and in the working "
	 "directory, in /tmp or beside FILE. The output of COMMAND is not "
	 "shown.\n"
	 "\n"
	 "Examples:\n"
	 "  gospect top server\n"
	 "  gospect top -p 1234 --label route=/pay -o minute.html",
	 common_options_children,
	 NULL,
	 NULL};

struct session {
	struct top_verb *verb;
	struct gospect_top *top;
	pid_t pid;
	bool quit;
};

static struct error *must_check draw(struct session *s)
{
	const struct gospect_top_page *page;
	size_t width, height;
	struct error *err;

	screen_size(&width, &height);
	err = library_error(gospect_top_page(s->top, width, height, &page));
	if (!err)
		screen_show(page);
	return err;
}

static void name_file(struct session *s)
{
	time_t now = time(NULL);
	char moment[32], name[80];
	struct tm tm;

	strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	snprintf(name, sizeof(name), "top-%d-%s.pb.gz", s->pid, moment);
	gospect_top_offer_file(s->top,
			       s->verb->request.output.path ? s->verb->request.output.path : name);
}

static struct error *must_check choose_format(const struct output_options *output,
					      enum gospect_format *ret)
{
	*ret = output->format ? format_named(output->format) : format_for_profile(output->path);
	if (*ret)
		return NULL;
	return error_format(
		ERROR_USAGE,
		"unknown file extension of %s; use .pb.gz, .pprof, .folded, .firefox.json, .json or .html",
		output->path);
}

static struct error *must_check open_file(const char *path, const struct target_options *named,
					  struct outfile *ret)
{
	if (!strcmp(path, "-"))
		return error_format(ERROR_USAGE, "standard output is this terminal; choose a file");
	if (named->path && !strcmp(path, named->path))
		return outfile_open(path, ret);
	return outfile_open_new(path, &named->names, ret);
}

static void drop_profile(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}

static struct error *must_check write_profile(struct session *s, const char *path, double *ret)
{
	struct output_options output = {path, s->verb->request.output.format};
	_cleanup_(drop_profile) struct gospect_profile *p = NULL;
	_cleanup_outfile_ struct outfile out = {0};
	enum gospect_format format;
	struct error *err = choose_format(&output, &format);

	if (!err)
		err = open_file(path, &s->verb->request.target, &out);
	if (!err)
		err = library_error(gospect_top_profile(s->top, &p));
	if (!err)
		err = library_error(gospect_profile_write(p, format, output_sink(&out)));
	if (err)
		return err;
	*ret = gospect_profile_info(p)->duration_ns / 1e9;
	return outfile_commit(&out);
}

static void write_and_say(struct session *s)
{
	const char *path = gospect_top_input(s->top);
	double seconds = 0;
	struct error *err = write_profile(s, path, &seconds);
	char line[256];

	if (err)
		snprintf(line, sizeof(line), "%s", err->message);
	else
		snprintf(line, sizeof(line), "wrote the last %.0f s to %.200s", seconds, path);
	gospect_top_say(s->top, line);
	error_destroy(err);
}

static struct error *must_check press(struct session *s, uint32_t key)
{
	enum gospect_top_action action;
	struct error *err;

	if (key == SCREEN_GONE) {
		s->quit = true;
		return NULL;
	}
	if (key == SCREEN_RESIZED)
		return draw(s);
	if (key == 'w')
		name_file(s);
	err = library_error(gospect_top_press(s->top, key, &action));
	if (err)
		return err;
	s->quit = action == GOSPECT_TOP_QUIT;
	if (action == GOSPECT_TOP_WRITE)
		write_and_say(s);
	return action == GOSPECT_TOP_SHOW || action == GOSPECT_TOP_WRITE ? draw(s) : NULL;
}

static struct error *must_check press_all(struct session *s, int milliseconds)
{
	uint32_t key = screen_press(milliseconds);
	struct error *err = NULL;

	while (!err && key != SCREEN_NO_PRESS && !s->quit) {
		err = press(s, key);
		key = screen_press(0);
	}
	return err;
}

static struct error *must_check step(struct session *s)
{
	uint32_t state;
	struct error *err = library_error(gospect_top_step(s->top, &state));

	if (!err && state & GOSPECT_TOP_NEW_PAGE)
		err = draw(s);
	return err ? err : press_all(s, state & GOSPECT_TOP_RESTS ? REST_MS : 0);
}

static struct error *must_check run_screen(struct session *s)
{
	struct error *err = NULL;

	screen_open();
	while (!err && !s->quit && !stop_requested)
		err = step(s);
	screen_close();
	return err;
}

static struct error *must_check top(struct top_verb *v, const struct cli_target *target)
{
	const struct gospect_top_options how = {
		.size = sizeof(how),
		.budget = v->budget,
		.filter = &v->request.filter,
		.flags = (v->all ? GOSPECT_TOP_SYSTEM : 0) |
			 (screen_is_ascii() ? GOSPECT_TOP_ASCII : 0),
	};
	struct session s = {.verb = v, .pid = gospect_target_info(target->handle)->pid};
	struct error *err = library_error(gospect_top_create(target->handle, &how, &s.top));

	if (err)
		return err;
	err = run_screen(&s);
	if (!err && gospect_top_ended(s.top))
		say("%s", gospect_top_ended(s.top));
	gospect_top_destroy(s.top);
	return err;
}

/* The files that may be written: that of -o, and new ones that the user names later. */
static struct error *must_check name_outputs(const struct output_options *output,
					     struct target_options *ret)
{
	static const char *folders[7] = {"", "/tmp", "/var/tmp"};
	const char *temporary = getenv("TMPDIR");
	const char *slash = output->path ? strrchr(output->path, '/') : NULL;
	size_t count = 3;

	folders[count] = getcwd(NULL, 0);
	count += folders[count] != NULL;
	if (temporary && *temporary)
		folders[count++] = temporary;
	if (slash) {
		folders[count] = strndup(output->path, slash - output->path);
		if (!folders[count])
			return &error_no_memory;
	}
	ret->path = output->path;
	ret->names = (struct outfile_rule){folders, format_profile_suffixes()};
	return NULL;
}

/* The command must not write into the screen or read the keys. */
static void hide_terminal(int saved[3])
{
	_cleanup_close_ int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = -1;
		if (nothing < 0 || !isatty(fd))
			continue;
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (saved[fd] >= 0)
			dup2(nothing, fd);
	}
}

static void show_terminal(int saved[3])
{
	for (int fd = 0; fd < 3; fd++) {
		if (saved[fd] < 0)
			continue;
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
}

static struct error *open_target(struct target_options *o, struct cli_target *s)
{
	int saved[3] = {-1, -1, -1};
	struct error *err;

	if (o->command)
		hide_terminal(saved);
	err = cli_target_open(o, s);
	show_terminal(saved);
	return err;
}

/* Whether the started command is still running. */
static bool is_running(const struct cli_target *s)
{
	siginfo_t info = {0};

	return s->child && s->handle &&
	       !waitid(P_PID, s->child, &info, WEXITED | WNOWAIT | WNOHANG) && !info.si_pid;
}

static struct error *run_top(struct top_verb *v, int *ret)
{
	_cleanup_cli_target_ struct cli_target s = {0};
	struct error *err = target_options_check(&v->request.target, "top");

	if (!err && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		err = error_format(
			ERROR_USAGE,
			"top: standard input and output are not a terminal; use `gospect record`, "
			"which writes a file");
	if (err)
		return err;
	stop_on_signals();
	err = screen_prepare();
	if (!err)
		err = name_outputs(&v->request.output, &v->request.target);
	if (!err)
		err = open_target(&v->request.target, &s);
	if (!err)
		err = top(v, &s);
	if (is_running(&s))
		say("the command (pid %d) is still running; waiting for its end", s.child);
	return cli_target_finish(&s, err, ret);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct top_verb v = {.budget = 1, .request.target.confines = true};
	bool help;
	struct error *err = parse_options(&argp, "top", argc, argv, &v, &help);

	if (!err && !help)
		err = run_top(&v, ret);
	return err;
}

const struct verb verb_top = {"top",
			      "show live what a program does: requests, hot functions, waits", run};
