/*
 * Steps a thread of a Go program (tests/programs/steps) through main.steps, one instruction at a
 * time, and holds the unwinder against what it saw happen: calls push, returns pop.
 *
 * single_step PID TID: prints "seized" when the thread is in its hands, then waits for it to come
 * to main.steps; then of frame pointers and of .debug_frame "METHOD right N lost N twice N other
 * N", and at the end "instructions N compared N wrong N functions N", by pcsp.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "base/array.h"
#include "golayout/golayout.h"
#include "unwind/running_thread.h"

#define MAX_STEPS 2000000
#define PASSES 1
#define STACK_BYTES 16384
#define MAX_DEPTH 4096
#define MAX_CHAIN 128

/* How a method for comparing did: all callers right, one left out, one there twice. */
struct method {
	struct unwinding by;
	struct stacks *stacks;
	struct running_unwinder *unwinder;
	uint64_t right, lost, twice, other;
};

struct stepper {
	pid_t tid;
	struct target *t;
	struct image *img;
	struct stacks *stacks;
	struct running_unwinder *unwinder;
	uint8_t bytes[STACK_BYTES];
	uint64_t calls[MAX_DEPTH]; /* return addresses, the outermost first */
	size_t depth;
	uint64_t base[64]; /* the callers of main.steps */
	size_t base_count;
	size_t before_growth; /* depth when a function found its stack too small */
	uint64_t functions[256];
	size_t function_count;
	uint64_t instructions, compared, wrong;
	struct method methods[2];
};

static void fail(const char *what)
{
	printf("failed: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(struct error *err)
{
	if (err) {
		printf("failed: %s\n", err->message);
		exit(1);
	}
}

static void wait_for_stop(pid_t tid)
{
	int status;

	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		fail("waitpid");
}

static void registers_of(const struct stepper *s, struct user_regs_struct *ret)
{
	if (ptrace(PTRACE_GETREGS, s->tid, NULL, ret))
		fail("PTRACE_GETREGS");
}

static void step(const struct stepper *s)
{
	if (ptrace(PTRACE_SINGLESTEP, s->tid, NULL, NULL))
		fail("PTRACE_SINGLESTEP");
	wait_for_stop(s->tid);
}

static bool nothing_read(void *arg, uint64_t address, void *buffer, size_t size)
{
	return false;
}

static bool no_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	return false;
}

static bool no_thread_sp(void *arg, uint64_t *ret)
{
	return false;
}

/* The chain as the kernel makes it: arch/x86/events/core.c, perf_callchain_user. */
static size_t follow_chain(const struct stepper *s, const struct user_regs_struct *r,
			   uint64_t chain[MAX_CHAIN])
{
	uint64_t record[2], fp = r->rbp;
	size_t n = 0;

	for (chain[n++] = r->rip; n < MAX_CHAIN; chain[n++] = record[1], fp = record[0])
		if (error_dropped(target_read(s->t, fp, record, sizeof(record))))
			break;
	return n;
}

/* As a sample would have it: registers, and the stack from SP on. */
static struct running_sample sample_at(struct stepper *s, const struct user_regs_struct *r)
{
	struct running_sample sample = {.bytes = s->bytes};

	registers_set(&sample.regs, AMD64_PC, r->rip);
	registers_set(&sample.regs, AMD64_RSP, r->rsp);
	registers_set(&sample.regs, AMD64_RBP, r->rbp);
	registers_set(&sample.regs, AMD64_R12, r->r12);
	registers_set(&sample.regs, AMD64_R14, r->r14);
	for (sample.size = STACK_BYTES; sample.size >= 64; sample.size /= 2)
		if (!error_dropped(target_read(s->t, r->rsp, s->bytes, sample.size &= ~7ull)))
			break;
	return sample;
}

static struct stack unwind(struct stepper *s, const struct user_regs_struct *r)
{
	const struct running_source source = {nothing_read, no_goroutine, no_thread_sp, s};
	struct running_sample sample = sample_at(s, r);
	struct running_stack result;

	must(running_unwind(s->unwinder, &sample, &source, &result));
	return stacks_get(s->stacks, result.stack);
}

/* Without the chain the exact walk would equal the one by frame pointers. */
static struct stack unwind_by(struct stepper *s, struct method *m, const struct user_regs_struct *r)
{
	const struct running_source source = {nothing_read, no_goroutine, no_thread_sp, s};
	struct running_sample sample = sample_at(s, r);
	struct running_stack result;
	uint64_t chain[MAX_CHAIN];

	sample.chain = chain;
	sample.chain_count = follow_chain(s, r, chain);
	must(running_unwind(m->unwinder, &sample, &source, &result));
	return stacks_get(m->stacks, result.stack);
}

static const char *function_at(const struct stepper *s, uint64_t pc, uint64_t *ret_entry)
{
	struct go_func f;

	*ret_entry = 0;
	if (!pclntab_find(&s->img->functions, pc, &f))
		return "";
	*ret_entry = f.entry;
	return f.name;
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* The functions in question: the program's own, and those that the compiler calls for it without
 * a word. */
static bool is_compared(const char *name)
{
	return begins(name, "main.") || begins(name, "runtime.duff") ||
	       begins(name, "runtime.memmove") || begins(name, "runtime.memclrNoHeapPointers");
}

static void note_function(struct stepper *s, uint64_t entry)
{
	for (size_t i = 0; i < s->function_count; i++)
		if (s->functions[i] == entry)
			return;
	if (s->function_count < ARRAY_SIZE(s->functions))
		s->functions[s->function_count++] = entry;
}

static bool is_right(const struct stepper *s, const struct stack *stack, uint64_t pc)
{
	if (stack->count != 1 + s->depth + s->base_count || stack->pcs[0] != (pc | STACK_PC_EXACT))
		return false;
	for (size_t i = 0; i < s->depth; i++)
		if (stack->pcs[1 + i] != s->calls[s->depth - 1 - i])
			return false;
	return !memcmp(stack->pcs + 1 + s->depth, s->base, s->base_count * sizeof(s->base[0]));
}

static void compare_method(struct stepper *s, struct method *m, const struct user_regs_struct *r)
{
	struct stack stack = unwind_by(s, m, r);
	size_t truth = 1 + s->depth + s->base_count;

	if (is_right(s, &stack, r->rip))
		m->right++;
	else if (stack.count == truth - 1)
		m->lost++;
	else if (stack.count == truth + 1)
		m->twice++;
	else
		m->other++;
}

static void compare(struct stepper *s, const struct user_regs_struct *r)
{
	uint64_t entry;
	const char *name = function_at(s, r->rip, &entry);
	struct stack stack;

	/* A stack grows on the thread's own stack, whose callers are not those of main.steps. */
	if (!is_compared(name) || s->before_growth != SIZE_MAX)
		return;
	stack = unwind(s, r);
	s->compared++;
	note_function(s, entry);
	for (size_t i = 0; i < ARRAY_SIZE(s->methods); i++)
		compare_method(s, &s->methods[i], r);
	if (is_right(s, &stack, r->rip))
		return;
	if (s->wrong++ < 5)
		printf("wrong at %s+%#" PRIx64 ": %u frames for %zu\n", name,
		       (uint64_t)r->rip - entry, stack.count, 1 + s->depth + s->base_count);
}

/* "gogo" since Go 1.17: a name of its file alone. */
static bool is_gogo(const char *name)
{
	return !strcmp(name, "gogo") || !strcmp(name, "runtime.gogo");
}

/* call rel32, call r/m64, with or without a prefix */
static bool is_call(const uint8_t *code)
{
	if (code[0] >= 0x40 && code[0] <= 0x4f)
		code++;
	return code[0] == 0xe8 || (code[0] == 0xff && (code[1] >> 3 & 7) == 2);
}

/* The effect of the instruction on the call stack. */
static void follow(struct stepper *s, const uint8_t *code, uint64_t from,
		   const struct user_regs_struct *now)
{
	uint64_t entry, word;
	const char *name = function_at(s, now->rip, &entry);

	if (is_call(code)) {
		if (begins(name, "runtime.morestack") && s->before_growth == SIZE_MAX)
			s->before_growth = s->depth;
		must(target_read_u64(s->t, now->rsp, &word));
		if (s->depth >= MAX_DEPTH)
			fail("too deep");
		s->calls[s->depth++] = word;
	} else if (code[0] == 0xc3) {
		if (s->depth)
			s->depth--;
	} else if (begins(name, "main.") && s->before_growth != SIZE_MAX &&
		   is_gogo(function_at(s, from, &entry))) {
		s->depth = s->before_growth;
		s->before_growth = SIZE_MAX;
	}
}

/* Through main.steps once, from its entry to its return. */
static void walk_through(struct stepper *s)
{
	struct user_regs_struct r, next;
	struct stack stack;
	uint8_t code[16];

	registers_of(s, &r);
	stack = unwind(s, &r);
	if (stack.count < 3 || stack.count - 1 > ARRAY_SIZE(s->base))
		fail("main.steps has no callers");
	s->base_count = stack.count - 1;
	memcpy(s->base, stack.pcs + 1, s->base_count * sizeof(s->base[0]));
	s->depth = 0;
	s->before_growth = SIZE_MAX;
	for (;; r = next) {
		bool returns;

		compare(s, &r);
		must(target_read(s->t, r.rip, code, sizeof(code)));
		returns = code[0] == 0xc3 && !s->depth;
		step(s);
		registers_of(s, &next);
		s->instructions++;
		if (returns || s->instructions > MAX_STEPS)
			return;
		follow(s, code, r.rip, &next);
	}
}

static void run_to(const struct stepper *s, uint64_t pc)
{
	struct user_regs_struct r;

	for (size_t i = 0; i < MAX_STEPS; i++) {
		registers_of(s, &r);
		if (r.rip == pc)
			return;
		step(s);
	}
	fail("main.steps was not called");
}

static void open_methods(struct stepper *s)
{
	struct debug_frame *frames = NULL;

	must(debug_frame_open(s->img, &frames));
	s->methods[0].by = (struct unwinding){.method = UNWIND_FP};
	s->methods[1].by = (struct unwinding){UNWIND_DWARF, frames};
	for (size_t i = 0; i < ARRAY_SIZE(s->methods); i++) {
		struct method *m = &s->methods[i];

		m->stacks = stacks_create(&s->img->functions, s->img->machine);
		if (!m->stacks)
			fail("stacks_create");
		stacks_unwind_by(m->stacks, &m->by);
		m->unwinder = running_unwinder_create(m->stacks, &s->img->functions,
						      s->img->machine, NULL);
		if (!m->unwinder)
			fail("running_unwinder_create");
	}
}

static void print_methods(const struct stepper *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->methods); i++) {
		const struct method *m = &s->methods[i];

		printf("%s right %" PRIu64 " lost %" PRIu64 " twice %" PRIu64 " other %" PRIu64
		       "\n",
		       unwind_method_name(m->by.method), m->right, m->lost, m->twice, m->other);
	}
}

int main(int argc, char **argv)
{
	static struct stepper s;
	struct golayout *lay;
	struct go_func f;

	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	s.tid = atoi(argv[2]);
	must(target_open_process(atoi(argv[1]), &s.t));
	must(image_open(s.t, NULL, &s.img));
	must(golayout_open(s.img, s.t, &lay));
	s.stacks = stacks_create(&s.img->functions, s.img->machine);
	s.unwinder = running_unwinder_create(s.stacks, &s.img->functions, s.img->machine, NULL);
	if (!s.stacks || !s.unwinder || !pclntab_find_name(&s.img->functions, "main.steps", &f))
		fail("main.steps");
	open_methods(&s);
	if (ptrace(PTRACE_SEIZE, s.tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, s.tid, NULL, NULL))
		fail("ptrace");
	wait_for_stop(s.tid);
	printf("seized\n");
	for (int i = 0; i < PASSES; i++) {
		run_to(&s, f.entry);
		walk_through(&s);
	}
	ptrace(PTRACE_DETACH, s.tid, NULL, NULL);
	print_methods(&s);
	printf("instructions %" PRIu64 " compared %" PRIu64 " wrong %" PRIu64 " functions %zu\n",
	       s.instructions, s.compared, s.wrong, s.function_count);
	return s.wrong != 0;
}
