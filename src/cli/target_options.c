#include "cli/target_options.h"

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/cpu_limit.h"
#include "cli/find.h"
#include "cli/output_options.h"
#include "cli/stop.h"

/* How long a started program may take to load Go as a library, or to become a Go program by exec.
 */
#define EXEC_SECONDS 1

enum { KEY_EXE = 0x2000, KEY_CORE, KEY_CONTAINER };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Target:", 1},
	{"pid", 'p', "PID|NAME", 0,
	 "Look at this process: its id, or the name of its program or of the process; -p may be "
	 "omitted",
	 1},
	{"container", KEY_CONTAINER, "ID", 0,
	 "Look at the Go process in this container of Docker, containerd, CRI-O, Podman or systemd; "
	 "the first 4 characters suffice",
	 1},
	{"core", KEY_CORE, "FILE", OPTION_HIDDEN, NULL, 1},
	{0}};

static error_t parse_word(const char *arg, struct target_options *o, struct argp_state *state)
{
	const char *word = NULL;
	error_t failed;

	if (!o->word || !o->takes_many)
		return parse_target(arg, &o->word, state);
	if (o->more_count == TARGETS_MOST - 1)
		return wrong_option(state, "too many targets: the limit is %d", TARGETS_MOST);
	failed = parse_target(arg, &word, state);
	o->more[o->more_count++] = word;
	return failed;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct target_options *o = state->input;

	switch (key) {
	case 'p':
		return parse_word(arg, o, state);
	case KEY_CONTAINER:
		return parse_container(arg, &o->container, state);
	case KEY_EXE:
		o->exe = arg;
		return 0;
	case KEY_CORE:
		o->core = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (state->quoted && state->next > state->quoted) {
			o->command = state->argv + state->next - 1;
			state->next = state->argc;
			return 0;
		}
		return parse_word(arg, o, state);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option exe_options[] =
	{{"exe", KEY_EXE, "FILE", 0,
	  "Take symbols and DWARF from this file, an unstripped build with the target's build id",
	  1},
	 {0}};

/* Only the verbs that read core files show this option. The others refuse it and name those
 * verbs. */
static const struct argp_option core_options[] =
	{{"core", KEY_CORE, "FILE", 0,
	  "Look at a core file; give --exe too if its program has moved", 1},
	 {0}};

const struct argp target_options_argp = {.options = options, .parser = parse};
const struct argp target_options_exe_argp = {.options = exe_options, .parser = parse};
const struct argp target_options_core_argp = {.options = core_options, .parser = parse};

struct error *target_options_check(struct target_options *o, const char *verb)
{
	o->verb = verb;
	if (o->core && !o->reads_cores)
		return error_format(
			ERROR_USAGE,
			"%s: a core file is not a running process; use `gospect dump --core FILE`",
			verb);
	if (o->container && (o->word || o->command || o->core || o->host))
		return error_format(ERROR_USAGE,
				    "%s: --container and another target are mutually exclusive",
				    verb);
	if (o->follow && (o->word || o->command || o->core || o->host || o->container))
		return error_format(ERROR_USAGE,
				    "%s: --follow and another target are mutually exclusive", verb);
	if (o->children && o->host)
		return error_format(ERROR_USAGE,
				    "%s: --children and --host are mutually exclusive: --host has "
				    "all processes",
				    verb);
	if (o->core && (o->word || o->command))
		return error_format(ERROR_USAGE, "%s: --core and a process are mutually exclusive",
				    verb);
	if (o->word && o->command)
		return error_format(ERROR_USAGE, "%s: two targets, '%s' and -- %s; give one", verb,
				    o->word, o->command[0]);
	if (o->host && (o->word || o->command))
		return error_format(ERROR_USAGE, "%s: --host and a process are mutually exclusive",
				    verb);
	if (o->exe && (o->host || o->more_count || o->follow || o->children))
		return error_format(ERROR_USAGE, "%s: --exe is for one process; use one -p PID",
				    verb);
	if (!o->word && !o->container && !o->command && !o->core && !o->host && !o->follow)
		return error_format(
			ERROR_USAGE,
			"%s: no target; use -p PID, -p NAME or -- COMMAND ARGS... (`gospect ps` lists the "
			"Go processes)",
			verb);
	return NULL;
}

struct error *target_options_find(struct target_options *o)
{
	if (o->pid)
		return NULL;
	if (o->container)
		return find_container(o->container, o->verb, &o->pid);
	return o->word ? find_target(o->word, o->verb, &o->pid) : NULL;
}

/* On an architecture without a surgeon, gospect_trace_begin() reports the error. */
static struct error *must_check start_surgeon(pid_t pid, struct cli_target *s)
{
	struct error *err;

	command_offer_to_be_killed();
	err = library_error(gospect_surgeon_start(pid, stop_cancel, &s->surgeon));
	if (!err || err->code != ERROR_UNSUPPORTED)
		return err;
	error_destroy(err);
	return NULL;
}

/* Call it before anything of the target is read. */
static struct error *must_check give_up_privilege(const struct target_options *o,
						  struct cli_target *s)
{
	const char *files[3] = {NULL};
	struct gospect_confine_options c = {.size = sizeof(c),
					    .child = s->child,
					    .flags = o->reads_alone ? 0 : GOSPECT_CONFINE_SAMPLES,
					    .files = files,
					    .output = output_handle(o->out),
					    .trace = o->trace,
					    .path = o->path,
					    .new_folders = o->names.folders,
					    .new_endings = o->names.endings,
					    .remark = say_remark,
					    .source = o->source};
	struct error *err = NULL;
	size_t n = 0;

	if (!o->confines)
		return NULL;
	if (o->exe)
		files[n++] = o->exe;
	if (o->core)
		files[n++] = o->core;
	if (s->child || o->pid)
		c.pid = s->child ? s->child : o->pid;
	if (o->core)
		c.cpu_seconds = cpu_limit(files);
	if (o->traces)
		err = start_surgeon(c.pid, s);
	return err ? err : library_error(gospect_confine(&c));
}

static struct error *must_check open_target(const struct target_options *o, struct cli_target *s)
{
	struct gospect_target_options how = {
		.size = sizeof(how),
		.exe = o->exe,
		.cancel = o->completes ? NULL : stop_cancel,
		.remark = say_remark,
		.exec_timeout = s->child ? EXEC_SECONDS : 0,
		.hold = s->hold,
	};
	struct gospect_error *err;

	if (o->core)
		err = gospect_target_open_core(o->core, &how, &s->handle);
	else
		err = gospect_target_open_process(s->child ? s->child : o->pid, &how, &s->handle);
	return library_error(err);
}

struct error *cli_target_open(struct target_options *o, struct cli_target *ret)
{
	struct cli_target s = {0};
	struct error *err = target_options_find(o);
	int status;

	if (!err && o->command)
		err = command_start(o->command, o->holds ? &s.hold : NULL, &s.child);
	if (!err)
		err = give_up_privilege(o, &s);
	if (!err)
		err = open_target(o, &s);
	if (err) {
		err = cli_target_finish(&s, err, &status);
		gospect_surgeon_end(s.surgeon);
		return err;
	}
	*ret = s;
	return NULL;
}

void cli_target_go_on(struct cli_target *s)
{
	gospect_hold_release(take_ptr(s->hold));
}

void cli_target_close(struct cli_target *s)
{
	cli_target_go_on(s);
	gospect_target_close(s->handle);
	gospect_surgeon_end(s->surgeon);
	*s = (struct cli_target){.child = s->child};
}

struct error *cli_target_finish(struct cli_target *s, struct error *err, int *ret)
{
	pid_t child = s->child;

	if (!child)
		return err;
	cli_target_go_on(s);
	s->child = 0;
	if (err && err->code != ERROR_STOPPED) {
		say("%s", err->message);
		error_destroy(err);
		err = &error_stopped;
	}
	*ret = command_wait(child);
	return err;
}
