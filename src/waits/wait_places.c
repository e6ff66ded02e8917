/* Names of kinds of objects, of states, and of lines in the source. */
#include <stdarg.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "waits/room.h"

#define MAX_INLINED 64

const char *wait_kind_name(enum wait_kind kind)
{
	static const char *const names[WAIT_KINDS] = {
		[WAIT_MUTEX] = "mutex",         [WAIT_RWMUTEX] = "rwmutex",
		[WAIT_WAITGROUP] = "waitgroup", [WAIT_COND] = "cond",
		[WAIT_CHANNEL] = "channel",     [WAIT_SELECT] = "select",
		[WAIT_SEMAPHORE] = "semaphore", [WAIT_NETWORK] = "network",
		[WAIT_TIMER] = "timer",         [WAIT_PROCESS] = "process",
		[WAIT_OTHER] = "other",
	};

	return kind < WAIT_KINDS ? names[kind] : "other";
}

const char *wait_keep(struct wait_graph *w, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		return NULL;
	}
	return arena_copy(&w->strings, text, n);
}

bool wait_is_package(const char *function, const char *package)
{
	size_t n = strlen(package);

	return !strncmp(function, package, n) && (function[n] == '.' || function[n] == '/');
}

/* Packages whose functions wait on behalf of their caller. */
static bool waits_for_others(const char *function)
{
	static const char *const packages[] = {"runtime", "sync", "internal", "syscall", "time",
					       "net",     "os",   "io",       "bufio",   "crypto"};

	if (!strchr(function, '.'))
		return true;
	/* net/http and os/exec have goroutines of their own. */
	if (wait_is_package(function, "net") || wait_is_package(function, "os"))
		return function[strcspn(function, "/.")] == '.';
	for (size_t i = 0; i < ARRAY_SIZE(packages); i++)
		if (wait_is_package(function, packages[i]))
			return true;
	return false;
}

static bool take_place(const struct go_frame *f, struct wait_place *ret)
{
	*ret = (struct wait_place){f->function, f->file, f->line};
	return true;
}

struct wait_place wait_place_of(const struct wait_graph *w, uint32_t id)
{
	struct stack stack = stacks_get(goroutine_set_stacks(w->set), id);
	struct wait_place place = {"", "", 0};
	bool found = false;

	for (size_t i = 0; i < stack.count && i < STACK_MAX_FRAMES; i++) {
		struct go_frame frames[MAX_INLINED];
		size_t n = stack_pc_is_pseudo(stack.pcs[i])
				   ? 0
				   : pclntab_frames(&w->img->functions, stack.pcs[i], frames,
						    MAX_INLINED);

		for (size_t k = 0; k < n; k++) {
			if (frames[k].wrapper)
				continue;
			if (!waits_for_others(frames[k].function)) {
				take_place(&frames[k], &place);
				return place;
			}
			/* A stack of the runtime alone is named by what is not quite inside. */
			if (!found && !wait_is_package(frames[k].function, "runtime"))
				found = take_place(&frames[k], &place);
		}
	}
	return place;
}

const char *wait_state(const struct wait_graph *w, const struct wait_goroutine *g)
{
	switch (g->status) {
	case G_WAITING:
	case G_LEAKED:
		return goroutine_set_wait_reason(w->set, g->reason);
	case G_RUNNING:
		return "running";
	case G_SYSCALL:
		return "syscall";
	case G_RUNNABLE:
		return "runnable";
	default:
		return "preempted";
	}
}
