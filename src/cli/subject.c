#include "cli/subject.h"

#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/confine.h"
#include "cli/stop.h"
#include "cli/surgeon_process.h"
#include "lib/target_handle.h"

/* How long what was started may take to load Go as a library, or to become Go by exec. */
#define EXEC_SECONDS 1
/* How long its runtime may take to be set up; and how often it is looked whether it has loaded Go.
 */
#define HOLD_MS 5000
#define LOOK_MS 20

enum { KEY_EXE = 0x2000, KEY_CORE };

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Target:", 1},
	 {"pid", 'p', "PID", 0, "Look at this process", 1},
	 {"exe", KEY_EXE, "FILE", 0,
	  "Take symbols and DWARF from this file, an unstripped build with the target's build id",
	  1},
	 {"core", KEY_CORE, "FILE", OPTION_HIDDEN, NULL, 1},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct subject_options *o = state->input;
	unsigned long pid;

	switch (key) {
	case 'p':
		if (!parse_id(arg, &pid) || pid > INT32_MAX)
			return wrong_option(
				state,
				"invalid process id '%s': it must be a number greater than 0", arg);
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
		return wrong_option(
			state,
			"unexpected argument '%s'; use -p PID for a process and -- COMMAND for a "
			"command",
			arg);
	}
	return ARGP_ERR_UNKNOWN;
}

/* Shown by the verbs that read core files; the others refuse it and name them. */
static const struct argp_option core_options[] =
	{{"core", KEY_CORE, "FILE", 0,
	  "Look at a core file; give --exe too if its program has moved", 1},
	 {0}};

const struct argp subject_argp = {.options = options, .parser = parse};
const struct argp subject_core_argp = {.options = core_options, .parser = parse};

static bool has_ended(pid_t child)
{
	siginfo_t info = {0};

	return !waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* Of a Go program that has just called exec: where it is to be held; 0: nowhere. */
static struct error *must_check find_beginning(pid_t pid, const char *exe, uint64_t *ret,
					       bool *ret_library)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	struct golayout *lay = NULL;
	struct go_func f;
	struct error *err = target_open_process(pid, &t);

	if (!err)
		err = image_open(t, exe, &img);
	if (!err)
		err = golayout_open(img, t, &lay);
	if (err)
		return err;
	golayout_close(lay);
	*ret = pclntab_find_name(&img->functions, HOLDER_FUNCTION, &f) ? f.entry : 0;
	*ret_library = img->library;
	return NULL;
}

/* What was started is held as soon as it is a Go program; a shell may call exec first. What has
 * loaded Go as a library runs. What it was while it was no Go program; NULL: it was none. */
static struct error *hold(const struct subject *s, const char *exe)
{
	uint64_t end = clock_now() + EXEC_SECONDS * 1000000000ull, address;
	struct error *not_go = NULL;
	bool known = false, library;

	while (s->holder && !known && !stop_requested && clock_now() < end &&
	       !has_ended(s->child)) {
		bool execed = holder_await_exec(s->holder, LOOK_MS);
		struct error *err = find_beginning(s->child, exe, &address, &library);

		known = !err && (execed || library);
		if (execed && !err && address && !library)
			holder_hold(s->holder, address, HOLD_MS);
		else if (execed)
			holder_pass(s->holder);
		if (err && err->code == ERROR_NOT_GO && !not_go)
			not_go = err;
		else
			error_destroy(err);
	}
	return not_go;
}

/* Of a command that is no Go program in the end, what it was at first says most. */
static struct error *choose_reason(struct error *first, struct error *last)
{
	bool use_first = first && last && last->code == ERROR_GONE;

	error_destroy(use_first ? last : first);
	return use_first ? first : last;
}

struct error *subject_check(const struct subject_options *o, const char *verb)
{
	if (o->core && !o->reads_cores)
		return error_format(
			ERROR_USAGE,
			"%s: a core file is not a running process; use `gospect dump --core FILE`",
			verb);
	if (o->core && (o->pid || o->command))
		return error_format(ERROR_USAGE, "%s: --core and a process are mutually exclusive",
				    verb);
	if (o->pid && o->command)
		return error_format(ERROR_USAGE, "%s: -p PID and -- COMMAND are mutually exclusive",
				    verb);
	if (!o->pid && !o->command && !o->core)
		return error_format(
			ERROR_USAGE,
			"%s: no target; use -p PID or -- COMMAND ARGS... (`gospect ps` lists the "
			"Go processes)",
			verb);
	return NULL;
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
				.samples = !o->reads_alone};
	struct error *err;
	size_t n = 0;

	if (!o->confines)
		return NULL;
	if (o->exe)
		files[n++] = o->exe;
	if (o->core)
		files[n++] = o->core;
	if (child || o->pid)
		c.pid = target_process_of(child ? child : o->pid);
	err = o->traces ? surgeon_process_add(&c) : NULL;
	return err ? err : confine(&c);
}

static struct error *must_check open_target(const struct subject_options *o, struct subject *s)
{
	struct gospect_target_options how = {
		.size = sizeof(how),
		.exe = o->exe,
		.cancel = o->completes ? NULL : stop_cancel,
		.remark = say_remark,
		.exec_timeout = s->child ? EXEC_SECONDS : 0,
	};
	struct gospect_error *err;

	if (o->core)
		err = gospect_target_open_core(o->core, &how, &s->handle);
	else
		err = gospect_target_open_process(s->child ? s->child : o->pid, &how, &s->handle);
	return library_error(err);
}

struct error *subject_open(const struct subject_options *o, struct subject *ret)
{
	struct subject s = {0};
	struct error *err = NULL;

	if (o->command)
		err = command_start(o->command, o->holds ? &s.holder : NULL, &s.child);
	if (!err)
		err = give_up_privilege(o, s.child);
	if (!err) {
		struct error *not_go = hold(&s, o->exe);

		err = choose_reason(not_go, open_target(o, &s));
	}
	if (err) {
		if (s.child)
			subject_wait(&s);
		return err;
	}
	s.target = s.handle->target;
	s.image = s.handle->image;
	s.layout = s.handle->layout;
	*ret = s;
	return NULL;
}

void subject_go_on(struct subject *s)
{
	holder_release(take_ptr(s->holder));
}

void subject_close(struct subject *s)
{
	subject_go_on(s);
	gospect_target_close(s->handle);
	*s = (struct subject){.child = s->child};
}

int subject_wait(struct subject *s)
{
	pid_t child = s->child;

	subject_go_on(s);
	s->child = 0;
	return command_wait(child);
}
