#include "inject/standstill.h"

#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <unistd.h>

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

static bool registers_of(const struct stopped_thread *thread, struct user_regs_struct *ret)
{
	return thread->stopped && !ptrace(PTRACE_GETREGS, thread->id, NULL, ret);
}

struct error *standstill_check(struct target *t, int memory, const struct code_head *head,
			       const struct threads *threads)
{
	struct user_regs_struct u;
	uint8_t now[PLACE_MAX_BYTES];

	for (size_t i = 0; i < threads->count; i++)
		if (registers_of(&threads->items[i], &u) && in_the_middle(head, u.rip))
			return error_format(ERROR_FAILED,
					    "a thread of process %d is where none can be",
					    target_pid(t));
	for (unsigned int i = 0; i < head->place_count; i++) {
		const struct code_place *place = &head->places[i];
		ssize_t n = place->length < PLACE_JUMP_BYTES ? PLACE_JUMP_BYTES : place->length;

		if (place->address &&
		    (pread(memory, now, n, place->address) != n || memcmp(now, place->bytes, n)))
			return error_format(ERROR_DENIED,
					    "the code of process %d has changed meanwhile",
					    target_pid(t));
	}
	return NULL;
}

static void add(struct standstill_functions *functions, const struct go_func *f)
{
	functions->items[functions->count++] = (struct agent_range){f->entry, f->end - f->entry};
}

void standstill_functions(const struct image *img, const struct code_head *head, bool goid_late,
			  struct standstill_functions *ret)
{
	struct go_func f;

	ret->count = 0;
	for (unsigned int i = 0; i <= HOOK_P_HANDOFF; i++)
		if (head->places[i].address &&
		    pclntab_find(&img->functions, head->places[i].address, &f))
			add(ret, &f);
	if (goid_late && pclntab_find_name(&img->functions, "runtime.newproc1", &f))
		add(ret, &f);
}

static bool has(const struct standstill_functions *functions, uint64_t pc)
{
	for (size_t i = 0; i < functions->count; i++)
		if (pc - functions->items[i].start < functions->items[i].size)
			return true;
	return false;
}

bool standstill_in(struct target *t, const struct standstill_functions *functions,
		   const struct threads *threads)
{
	for (size_t i = 0; i < threads->count; i++) {
		struct user_regs_struct u;
		uint64_t caller;

		if (!registers_of(&threads->items[i], &u))
			continue;
		if (has(functions, u.rip))
			return true;
		if (!error_dropped(target_read_u64(t, u.rbp + 8, &caller)) &&
		    has(functions, caller))
			return true;
	}
	return false;
}
