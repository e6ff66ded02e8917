#include <errno.h>
#include <gospect/processes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/common_options.h"
#include "cli/duration.h"
#include "cli/find.h"
#include "cli/process_file.h"
#include "cli/stop.h"
#include "cli/watch_action.h"
#include "cli/watcher.h"

enum { KEY_WHEN = 0x6000, KEY_DO, KEY_KEEP, KEY_HOST, KEY_EVERY, KEY_REST };

#define MOST_CONDITIONS 16
/* With --host: how often gospect looks for new processes. */
#define HOST_NS 10000000000ull
#define POLL_MS 200
/* How long watchers may take to end. */
#define LEAVE_NS 5000000000ull
/* Of one watcher: more are not said. */
#define MOST_REMARKS 64
/* The library's: seconds. */
#define USUAL_REST 60

struct watch_verb {
	struct target_options target;
	const char *when[MOST_CONDITIONS + 1];
	size_t when_count;
	struct gospect_watch_options how;
	struct watch_actions actions;
	double keep, duration;
	struct watcher *watchers;
	size_t count, capacity;
	uint64_t listed_ns; /* when the processes of the machine were; 0: never */
	int failed;
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Watching:", 4},
	 {"when", KEY_WHEN, "CONDITION", 0,
	  "Write files when this becomes true, as in 'goroutines > 10000' (repeatable)", 4},
	 {"do", KEY_DO, "VERB", 0,
	  "What to write: dump (the default), record, waits, heap, memory or why (repeatable)", 4},
	 {"output", 'o', "NAME", 0,
	  "How file names begin, as in NAME-YYYYmmdd-HHMMSS-REASON.dump.txt", 4},
	 {"keep", KEY_KEEP, "N", 0, "Keep the files of the last N incidents, and remove older ones",
	  4},
	 {"duration", 'd', "DURATION", 0, "How long --do record and --do why run (10s)", 4},
	 {"interval", KEY_EVERY, "DURATION", 0, "The time between two looks (1s)", 4},
	 {"rest", KEY_REST, "DURATION", 0,
	  "Ignore a condition for this long after an incident (1m). If it is true again then, the "
	  "time doubles",
	  4},
	 {"host", KEY_HOST, NULL, 0, "Watch every Go process of this machine", 4},
	 {0}};

static error_t add_condition(struct watch_verb *v, const char *arg, struct argp_state *state)
{
	if (v->when_count == MOST_CONDITIONS)
		return wrong_option(state, "too many conditions: the limit is %d", MOST_CONDITIONS);
	v->when[v->when_count++] = arg;
	return 0;
}

static error_t add_action(struct watch_verb *v, const char *arg, struct argp_state *state)
{
	struct error *err = watch_actions_add(&v->actions, arg);
	error_t wrong = err ? wrong_option(state, "%s", err->message) : 0;

	error_destroy(err);
	return wrong;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct watch_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->target;
		return 0;
	case KEY_WHEN:
		return add_condition(v, arg, state);
	case KEY_DO:
		return add_action(v, arg, state);
	case 'o':
		v->actions.path = arg;
		return 0;
	case KEY_KEEP:
		return parse_number_option(arg, 1, 1e6, &v->keep, state, "number of incidents");
	case 'd':
		return parse_duration_option(arg, 0.1, 3600, &v->duration, state);
	case KEY_EVERY:
		return parse_duration_option(arg, 0.05, 3600, &v->how.interval, state);
	case KEY_REST:
		return parse_duration_option(arg, 0.1, 86400, &v->how.rest, state);
	case KEY_HOST:
		v->target.host = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&target_options_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
	options,
	parse,
	"-o NAME --when CONDITION... PID|NAME...\n-o NAME --when CONDITION... --host",
	"Looks at a Go program once a second, and writes a dump or other files when a condition "
	"becomes true. It does not stop the program, and writes nothing to its memory. It ends when "
	"the program ends.\v"
	"Conditions:\n"
	"  goroutines > 10000     the program has more goroutines\n"
	"  growth > 1000          the number has grown by more, within a minute\n"
	"  lock > 5s              a goroutine has waited longer for a Mutex or RWMutex\n"
	"  wait /REGEX/ > 30s     a goroutine has waited longer in such a function\n"
	"  runnable > 1s          a goroutine has been runnable for longer, without a P\n"
	"  heap > 1GB             the heap is larger\n"
	"  rss > 80%, rss > 1GB   resident memory is above this part of the cgroup's\n"
	"                         limit, or above this size\n"
	"\n"
	"Examples:\n"
	"  gospect watch server -o incident --when 'goroutines > 10000'\n"
	"  gospect watch --host -o /var/log/go --when 'rss > 80%' --do heap",
	children,
	NULL,
	NULL};

/* ---- processes ---- */

static bool is_watched(const struct watch_verb *v, pid_t pid)
{
	for (size_t i = 0; i < v->count; i++)
		if (v->watchers[i].from >= 0 && v->watchers[i].target == pid)
			return true;
	return false;
}

/* The place of a watcher that has ended, or a new one. NULL: no memory. */
static struct watcher *free_place(struct watch_verb *v)
{
	for (size_t i = 0; i < v->count; i++)
		if (v->watchers[i].from < 0)
			return &v->watchers[i];
	if (!array_reserve(&v->watchers, &v->capacity, v->count + 1))
		return NULL;
	v->watchers[v->count] = (struct watcher){.from = -1};
	return &v->watchers[v->count++];
}

static struct error *must_check watch_process(struct watch_verb *v, pid_t pid)
{
	struct watcher *l = is_watched(v, pid) ? NULL : free_place(v);

	if (is_watched(v, pid))
		return NULL;
	return l ? watcher_start(l, pid, &v->how, v->watchers, v->count) : &error_no_memory;
}

static int note_process(void *arg, const struct gospect_go_process *p)
{
	struct watch_verb *v = arg;
	struct error *err = v->count < TARGETS_MOST ? watch_process(v, p->pid) : NULL;

	if (err)
		say("cannot watch process %d (%s): %s", p->pid, p->name,
		    process_reason(err->message));
	error_destroy(err);
	return 0;
}

static void ignore_remark(void *arg, const char *line)
{
}

static struct error *must_check find_host(struct watch_verb *v)
{
	bool first = !v->listed_ns;
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .cancel = stop_cancel,
						      .remark = first ? say_remark : ignore_remark};
	struct error *err;

	if (!first && clock_now() - v->listed_ns < HOST_NS)
		return NULL;
	err = library_error(gospect_processes_each(&how, note_process, v, NULL));
	v->listed_ns = clock_now();
	if (!err && first && !v->count)
		err = error_format(ERROR_FAILED, "gospect can read no Go process of this machine");
	return err;
}

static struct error *must_check find_processes(struct watch_verb *v)
{
	struct error *err;
	pid_t pid;

	if (v->target.host)
		return find_host(v);
	err = target_options_find(&v->target);
	if (!err)
		err = watch_process(v, v->target.pid);
	for (size_t i = 0; !err && i < v->target.more_count; i++) {
		err = find_target(v->target.more[i], "watch", &pid);
		if (!err)
			err = watch_process(v, pid);
	}
	return err;
}

/* ---- incidents ---- */

static void say_end(struct watch_verb *v, const struct watcher *l,
		    const struct gospect_watch_info *info)
{
	say("process %d (%s)%s: %lu looks, %.2g %% of a CPU; %lu incidents, %lu more ignored (--rest)",
	    l->target, l->name, info->ended ? " has ended" : "", info->looks, info->cpu_percent,
	    info->incidents, info->rested);
}

/* A condition rests after each incident. A watcher that tells more was taken over by its target. */
static bool is_plausible(const struct watch_verb *v, struct watcher *l)
{
	double rest = v->how.rest > 0 ? v->how.rest : USUAL_REST;
	uint64_t now = clock_now();

	if (now - l->since > rest * 1e9) {
		l->since = now;
		l->incidents = 0;
	}
	return l->incidents++ < 2 * v->when_count;
}

static void take_message(struct watch_verb *v, struct watcher *l)
{
	struct watcher_message m;

	if (!watcher_read(l, &m))
		return;
	switch (m.kind) {
	case WATCHER_INCIDENT:
		if (!is_plausible(v, l))
			break;
		say("process %d (%s): %s", l->target, l->name, m.text);
		watch_actions_run(&v->actions, l->target, v->target.host || v->target.more_count,
				  m.word, m.text);
		break;
	case WATCHER_REMARK:
		if (l->remarks++ < MOST_REMARKS)
			say("process %d (%s): %s", l->target, l->name, m.text);
		break;
	case WATCHER_FAILED:
		say("cannot watch process %d (%s): %s", l->target, l->name, process_reason(m.text));
		v->failed++;
		watcher_end(l);
		break;
	case WATCHER_ENDED:
		say_end(v, l, &m.info);
		watcher_end(l);
		break;
	default:
		watcher_end(l);
	}
}

static size_t alive(const struct watch_verb *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->count; i++)
		n += v->watchers[i].from >= 0;
	return n;
}

static struct error *must_check wait_for_messages(struct watch_verb *v)
{
	struct pollfd *polled = calloc(v->count + 1, sizeof(*polled));

	if (!polled)
		return &error_no_memory;
	for (size_t i = 0; i < v->count; i++)
		polled[i] = (struct pollfd){v->watchers[i].from, POLLIN, 0};
	if (poll(polled, v->count, POLL_MS) > 0)
		for (size_t i = 0; i < v->count; i++)
			if (polled[i].revents)
				take_message(v, &v->watchers[i]);
	free(polled);
	return NULL;
}

/* Watchers got the signal too, or get it now; their last words are read. One that does not end, or
 * does not stop talking, is ended. */
static struct error *must_check end_all(struct watch_verb *v)
{
	uint64_t deadline = clock_now() + LEAVE_NS;
	struct error *err = NULL;

	for (size_t i = 0; i < v->count; i++)
		if (v->watchers[i].from >= 0)
			kill(v->watchers[i].child, SIGTERM);
	while (!err && alive(v) && clock_now() < deadline)
		err = wait_for_messages(v);
	for (size_t i = 0; i < v->count; i++) {
		if (v->watchers[i].from >= 0)
			say("process %d (%s): gospect stopped reading it, because that took too long",
			    v->watchers[i].target, v->watchers[i].name);
		watcher_end(&v->watchers[i]);
	}
	return err;
}

static struct error *must_check watch(struct watch_verb *v)
{
	struct error *err = find_processes(v), *end;

	while (!err && !stop_requested && (alive(v) || v->target.host)) {
		err = wait_for_messages(v);
		if (!err && v->target.host)
			err = find_host(v);
	}
	end = end_all(v);
	if (err && err != &error_stopped) {
		error_destroy(end);
		return err;
	}
	return end;
}

static struct error *must_check check(struct watch_verb *v)
{
	struct error *err = target_options_check(&v->target, "watch");

	if (!err && v->target.command)
		err = error_format(ERROR_USAGE,
				   "watch: -- COMMAND is not supported; use PID, NAME or "
				   "--host");
	if (!err && !v->when_count)
		err = error_format(ERROR_USAGE,
				   "watch: no condition; use --when 'goroutines > 10000'");
	if (!err && !v->actions.path)
		err = error_format(ERROR_USAGE, "watch: no name for the files; use -o NAME");
	if (!err)
		err = library_error(gospect_watch_check(v->when));
	if (!err && !v->actions.count)
		err = watch_actions_add(&v->actions, "dump");
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct watch_verb v = {.target = {.takes_many = true}, .duration = 10};
	bool help;
	struct error *err = parse_options(&argp, "watch", argc, argv, &v, &help);

	if (err || help)
		return err;
	err = check(&v);
	if (err)
		return err;
	v.how.size = sizeof(v.how);
	v.how.conditions = v.when;
	v.actions.duration = v.duration;
	watch_actions_keep(&v.actions, v.keep);
	stop_on_signals();
	err = watch(&v);
	if (!err && v.failed && (size_t)v.failed == v.count)
		*ret = EXIT_FAILED;
	watch_actions_release(&v.actions);
	free(v.watchers);
	return err;
}

const struct verb verb_watch = {"watch", "write a dump or a profile when a condition becomes true",
				run};
