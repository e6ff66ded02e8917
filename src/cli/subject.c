#include "cli/subject.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/confine.h"
#include "cli/stop.h"

/* How long a Go program may take to set up its runtime; then it is something else. */
#define START_NS 5000000000ull
/* How long what was started may take to load Go as a library, or to become Go by exec. */
#define LOAD_NS 1000000000ull

enum { KEY_EXE = 0x2000, KEY_CORE };

static const struct argp_option options[] =
	{{"pid", 'p', "PID", 0, "The process to look at", 1},
	 {"core", KEY_CORE, "FILE", 0, "The core file of a dead process, for dump and stack", 1},
	 {"exe", KEY_EXE, "FILE", 0,
	  "An unstripped file of the same build as the target's program (same build id); of a core "
	  "file the program itself",
	  1},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct subject_options *o = state->input;
	unsigned long pid;

	switch (key) {
	case 'p':
		if (!parse_id(arg, &pid) || pid > INT32_MAX)
			return wrong_option(state, "'%s' is no process id", arg);
		o->pid = pid;
		return 0;
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
		return wrong_option(state,
				    "do not understand '%s'; a process is given by -p PID, a "
				    "command by -- COMMAND",
				    arg);
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp subject_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

/* One try; *ret_starting: the runtime is not up yet. */
static struct error *try_open(pid_t pid, const char *exe, struct subject *s, bool *ret_starting)
{
	struct error *err;

	*ret_starting = false;
	err = target_open_process(pid, &s->target);
	if (!err)
		err = image_open(s->target, exe, &s->image);
	if (!err)
		err = golayout_open(s->image, s->target, &s->layout);
	if (!err)
		err = golayout_validate(s->layout, s->image, s->target, ret_starting);
	if (s->image)
		err = image_check(s->image, err);
	return err && s->target ? target_explain(s->target, err) : err;
}

static void drop(struct subject *s)
{
	golayout_close(take_ptr(s->layout));
	image_close(take_ptr(s->image));
	target_close(take_ptr(s->target));
}

/* Of a command that is no Go program in the end, what it was at first says most. */
static struct error *choose_reason(struct error *first, struct error *last)
{
	bool use_first = first && (last->code == ERROR_NOT_GO || last->code == ERROR_GONE);

	error_destroy(use_first ? last : first);
	return use_first ? first : last;
}

static bool has_ended(pid_t child)
{
	siginfo_t info = {0};

	return !waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* What was started may be on its way to Go: a shell that has not yet called exec, or calls it while
 * it is opened, when it has no memory or auxv for a moment. */
static bool may_load(const struct subject *s, const struct error *err, uint64_t passed)
{
	if (!s->child || !err || passed >= LOAD_NS)
		return false;
	if (err->code == ERROR_NOT_GO)
		return true;
	return (err->code == ERROR_GONE || err->code == ERROR_FAILED || err->code == ERROR_FAULT ||
		err->code == ERROR_CORRUPT) &&
	       !has_ended(s->child);
}

static struct error *open_started(pid_t pid, const char *exe, struct subject *s)
{
	uint64_t start = clock_now();
	struct error *not_go = NULL;
	bool starting;

	for (;;) {
		struct error *err = try_open(pid, exe, s, &starting);
		uint64_t passed = clock_now() - start;
		bool loading = may_load(s, err, passed);

		if (!err)
			error_destroy(not_go);
		if (!err)
			return NULL;
		if ((!starting && !loading) || passed > START_NS || stop_requested)
			return choose_reason(not_go, err);
		if (loading && !not_go && err->code == ERROR_NOT_GO)
			not_go = err;
		else
			error_destroy(err);
		drop(s);
		usleep(1000);
	}
}

struct error *subject_check(const struct subject_options *o, const char *verb)
{
	if (o->core && !o->reads_cores)
		return error_format(ERROR_USAGE,
				    "%s: a core file holds one moment; `gospect dump --core FILE` "
				    "shows it",
				    verb);
	if (o->core && (o->pid || o->command))
		return error_format(ERROR_USAGE,
				    "%s: give either --core FILE or a process, not both", verb);
	if (o->pid && o->command)
		return error_format(ERROR_USAGE, "%s: give either -p PID or -- COMMAND, not both",
				    verb);
	if (!o->pid && !o->command && !o->core)
		return error_format(ERROR_USAGE,
				    "%s: no target; give -p PID or -- COMMAND ARGS... (`gospect "
				    "ps` lists Go processes)",
				    verb);
	return NULL;
}

/* A truncated core may lack what is needed to begin with: then that is why. */
static struct error *must_check explain_cut(const struct subject *s, struct error *err)
{
	const struct target_core *core = s->target ? target_core(s->target) : NULL;

	if (!err || !core || !core->truncated)
		return err;
	return error_wrap(err, "%s is truncated (%lu of %lu bytes are there)", core->path,
			  core->size, core->whole_size > core->size ? core->whole_size : 0);
}

static struct error *open_core(const struct subject_options *o, struct subject *s)
{
	struct error *err = target_open_core(o->core, o->exe, &s->target);
	bool starting;

	if (!err)
		err = image_open(s->target, NULL, &s->image);
	if (err)
		return err;
	err = golayout_open(s->image, s->target, &s->layout);
	if (!err)
		err = golayout_validate(s->layout, s->image, s->target, &starting);
	return explain_cut(s, err);
}

/* Nothing of the target was read so far. */
static struct error *must_check give_up_privilege(const struct subject_options *o, pid_t child)
{
	static const char *files[3];
	struct confinement c = {.child = child,
				.files = files,
				.out = o->out,
				.path = o->path,
				.names = o->names,
				.traces = o->traces,
				.samples = !o->reads_alone};
	size_t n = 0;

	if (!o->confines)
		return NULL;
	if (o->exe)
		files[n++] = o->exe;
	if (o->core)
		files[n++] = o->core;
	if (child || o->pid)
		c.pid = target_process_of(child ? child : o->pid);
	return confine(&c);
}

struct error *subject_open(const struct subject_options *o, struct subject *ret)
{
	struct subject s = {0};
	struct error *err = NULL;

	if (o->command)
		err = command_start(o->command, &s.child);
	if (!err)
		err = give_up_privilege(o, s.child);
	if (!err && o->core)
		err = open_core(o, &s);
	else if (!err)
		err = open_started(s.child ? s.child : o->pid, o->exe, &s);
	if (err) {
		drop(&s);
		if (s.child)
			subject_wait(&s);
		return err;
	}
	*ret = s;
	return NULL;
}

void subject_close(struct subject *s)
{
	drop(s);
}

int subject_wait(struct subject *s)
{
	pid_t child = s->child;

	s->child = 0;
	return command_wait(child);
}
