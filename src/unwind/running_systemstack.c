/*
 * Finds the caller of systemstack up to Go 1.20, where systemstack makes no frame. The return
 * address lies where g.sched.sp points, on a stack that was not captured, and memory has mostly
 * changed by the time it is read. But the binary has the answer for the sampled instant. The
 * callchain has the return address of systemstack's caller, and the call before it names that
 * function. In that function one call of systemstack passes the closure that was running on the
 * thread's stack. If more than one call does, the caller stays unknown.
 */
#include <string.h>

#include "image/closure_calls.h"
#include "unwind/running_walk.h"

/* runtime.gcMarkTermination has the most: six in Go 1.20. */
#define MAX_CALLS 16
/* The runtime has fewer such calls; one that lies is not searched for ever. */
#define MAX_KNOWN 1024

/* "runtime.gcBgMarkWorker" of "runtime.gcBgMarkWorker.func2": where a closure is written. */
static uint64_t writer_of(const struct pclntab *functions, const char *closure)
{
	const char *end = strrchr(closure, '.');
	char name[256];
	struct go_func f;

	if (!end || strncmp(end, ".func", 5) || (size_t)(end - closure) >= sizeof(name))
		return 0;
	memcpy(name, closure, end - closure);
	name[end - closure] = '\0';
	return pclntab_find_name(functions, name, &f) ? f.entry : 0;
}

/* The function that called systemstack and will return to `next`. One that will return to goexit
 * began the goroutine; then its closure has its name. */
static uint64_t caller_of(const struct running_unwinder *u, const struct go_func *closure,
			  uint64_t next)
{
	struct go_func f;

	if (!pclntab_find(u->steps.functions, next, &f))
		return 0;
	return f.flags & FUNC_TOPFRAME ? writer_of(u->steps.functions, closure->name)
				       : call_target(u->program, next);
}

/* The only call that passes this closure, or may do so; 0: none, or several. */
static uint64_t call_with(const struct closure_call *calls, size_t count, uint64_t closure)
{
	uint64_t found = 0;

	if (count == 1)
		return calls[0].return_address;
	for (size_t i = 0; i < count; i++) {
		if (calls[i].closure && calls[i].closure != closure)
			continue;
		if (found)
			return 0;
		found = calls[i].return_address;
	}
	return found;
}

static uint64_t find(const struct running_unwinder *u, uint64_t systemstack,
		     const struct go_func *closure, uint64_t next)
{
	struct closure_call calls[MAX_CALLS];
	uint64_t caller = caller_of(u, closure, next);
	size_t count =
		caller ? closure_calls_find(u->program, caller, systemstack, calls, MAX_CALLS) : 0;

	return count <= MAX_CALLS ? call_with(calls, count, closure->entry) : 0;
}

uint64_t systemstack_return_address(struct running_walk *w, uint64_t pc, uint64_t next)
{
	const struct pclntab *functions = w->u->steps.functions;
	struct go_func closure, systemstack;
	uint64_t *known;

	if (!w->u->program || w->n < 2 || !running_in_go(w, next) ||
	    w->u->systemstack_calls.count >= MAX_KNOWN ||
	    stack_pc_is_pseudo(w->u->words[w->n - 2]) ||
	    !pclntab_find(functions, stack_pc_lookup(w->u->words[w->n - 2]), &closure) ||
	    !pclntab_find(functions, pc, &systemstack))
		return 0;
	known = map_at(&w->u->systemstack_calls, (closure.entry - functions->text) << 32 |
							 (uint32_t)(next - functions->text));
	if (!known)
		return 0;
	/* 1: it is known that it is not. */
	if (!*known) {
		uint64_t found = find(w->u, systemstack.entry, &closure, next);

		*known = found ? found : 1;
	}
	return *known == 1 ? 0 : *known;
}
