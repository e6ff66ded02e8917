#include "inject/standstill.h"

#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/array.h"

/* Of a stack, from the stack pointer on: more than a signal handler and its frame take. */
#define HANDLER_WORDS 1024
/* The segment of 64-bit code (asm/segment.h: __USER_CS). */
#define USER_CS 0x33

static bool in_the_middle(const struct code_head *head, uint64_t pc)
{
	for (unsigned int i = 0; i < head->place_count; i++) {
		const struct code_place *place = &head->places[i];
		uint64_t changed =
			place->length < PLACE_JUMP_BYTES ? place->length : PLACE_JUMP_BYTES;

		if (place->address && pc > place->address && pc < place->address + changed)
			return true;
	}
	return false;
}

/* Here a goroutine waits, and is still its M's: as one that only pretends to (trace/snapshot.c). */
static const char *const parking[] = {"runtime.park_m", "runtime.preemptPark"};

static void add(struct standstill_functions *functions, uint64_t start, uint64_t end)
{
	functions->items[functions->count++] = (struct agent_range){start, end - start};
}

/* The last call of `called` in the function; its end: there is none. */
static uint64_t last_call(const struct image *img, const struct go_func *f, uint64_t called)
{
	enum { CALL = 0xe8, CALL_BYTES = 5 };
	size_t size = f->end - f->entry;
	const uint8_t *code = image_bytes(img, f->entry, size);
	int32_t distance;

	for (size_t i = size; code && i-- > CALL_BYTES;) {
		size_t at = i - CALL_BYTES;

		memcpy(&distance, code + at + 1, sizeof(distance));
		if (code[at] == CALL && f->entry + i + distance == called)
			return f->entry + at;
	}
	return f->end;
}

void standstill_functions(const struct image *img, const struct code_head *head, bool goid_late,
			  struct standstill_functions *ret)
{
	struct go_func f, changes;

	ret->count = 0;
	for (unsigned int i = 0; i <= HOOK_P_HANDOFF; i++)
		if (head->places[i].address &&
		    pclntab_find(&img->functions, head->places[i].address, &f))
			add(ret, f.entry, f.end);
	ret->changing = ret->count;
	for (size_t i = 0; i < ARRAY_SIZE(parking); i++)
		if (pclntab_find_name(&img->functions, parking[i], &f))
			add(ret, f.entry, f.end);
	if (!goid_late || !pclntab_find_name(&img->functions, "runtime.casgstatus", &changes) ||
	    !pclntab_find_name(&img->functions, "runtime.newproc1", &f))
		return;
	add(ret, last_call(img, &f, changes.entry), f.end);
}

/* Among the first so many. */
static bool has(const struct standstill_functions *functions, size_t count, uint64_t pc)
{
	for (size_t i = 0; i < count; i++)
		if (pc - functions->items[i].start < functions->items[i].size)
			return true;
	return false;
}

/*
 * In a handler, at least the signal itself is blocked; the kernel has put the registers to which it
 * returns on the stack: rip, eflags, and cs as the lowest of four (asm/sigcontext.h).
 * A thread with blocked signals need not be in a handler: the calls under which it waits do not
 * count.
 */
static bool handler_returns_to(struct target *t, const struct standstill_functions *functions,
			       pid_t thread, uint64_t sp)
{
	uint64_t mask = 0, words[HANDLER_WORDS];
	size_t n = HANDLER_WORDS;

	if (!ptrace(PTRACE_GETSIGMASK, thread, sizeof(mask), &mask) && !mask)
		return false;
	while (n && error_dropped(target_read(t, sp, words, n * sizeof(words[0]))))
		n /= 2;
	for (size_t i = 0; i + 2 < n; i++)
		if ((words[i + 2] & 0xffff) == USER_CS &&
		    has(functions, functions->count, words[i]))
			return true;
	return false;
}

/*
 * It runs one of them, or what one of them calls. What is called may have no frame, or none yet
 * (osyield(), while the goroutine's stack is scanned), or two (nanotime1() and the vDSO's). Two
 * frames up, functions where one is parked do not count: the scheduler is called by them.
 */
static bool is_inside(struct target *t, const struct standstill_functions *functions,
		      const struct user_regs_struct *u)
{
	uint64_t caller = 0, frame[2] = {0};
	struct target_range ranges[] = {{u->rsp, sizeof(caller), &caller},
					{u->rbp, sizeof(frame), frame}};
	bool ok[ARRAY_SIZE(ranges)];

	if (has(functions, functions->count, u->rip))
		return true;
	if (error_dropped(target_read_each(t, ranges, ARRAY_SIZE(ranges), ok)))
		return false;
	if (ok[0] && has(functions, functions->count, caller))
		return true;
	if (!ok[1] || has(functions, functions->count, frame[1]))
		return ok[1];
	return !error_dropped(target_read(t, frame[0], frame, sizeof(frame))) &&
	       has(functions, functions->changing, frame[1]);
}

struct error *standstill_look(struct target *t, const struct code_head *head,
			      const struct standstill_functions *functions,
			      const struct threads *threads, bool *ret_inside)
{
	*ret_inside = false;
	for (size_t i = 0; i < threads->count; i++) {
		const struct stopped_thread *thread = &threads->items[i];
		struct user_regs_struct u;

		if (!thread->stopped || ptrace(PTRACE_GETREGS, thread->id, NULL, &u))
			continue;
		if (in_the_middle(head, u.rip))
			return error_format(ERROR_FAILED,
					    "a thread of process %d is where none can be",
					    target_pid(t));
		*ret_inside |= is_inside(t, functions, &u) ||
			       handler_returns_to(t, functions, thread->id, u.rsp);
	}
	return NULL;
}
