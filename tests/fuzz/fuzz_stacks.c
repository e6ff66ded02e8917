/*
 * Stack memory: hostile bytes, registers and chains, unwound by a function table that is right, on
 * either architecture.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fuzz.h"
#include "tests/made_functions.h"
#include "unwind/running_thread.h"
#include "unwind/stacks.h"

#define FUNCTIONS 8
#define MAX_CHAIN 16

struct header {
	uint8_t format;
	uint8_t arm64;
	uint8_t stacks; /* how many there are */
	uint8_t unused[5];
	struct {
		uint8_t frame, flags, name, unused;
	} functions[FUNCTIONS];
};

/* Then its bytes. */
struct stack_header {
	uint64_t pc, sp, lr, start_pc;
	uint8_t exact_pc;
	uint8_t whole;
	uint8_t chain;
	uint8_t below;
	uint32_t size;
	uint64_t words[MAX_CHAIN];
};

static void make_table(const struct header *h, struct made_functions *ret)
{
	static const char *const names[] = {"main.f",
					    "runtime.sigpanic",
					    "runtime.asyncPreempt",
					    "runtime.goexit",
					    "runtime.cgocallback",
					    "runtime.systemstack",
					    "runtime.morestack",
					    "runtime.asmcgocall",
					    "runtime.nanotime1",
					    "runtime.sigtramp",
					    "crosscall2"};
	struct made_function functions[FUNCTIONS];

	for (size_t i = 0; i < FUNCTIONS; i++)
		functions[i] =
			(struct made_function){names[h->functions[i].name % ARRAY_SIZE(names)],
					       i & 1 ? "main.inlined" : NULL, h->functions[i].frame,
					       h->functions[i].flags & 7, 0};
	made_functions_init(ret, h->format % 3, functions, FUNCTIONS);
}

static void check(const struct stacks *s, uint32_t id)
{
	struct stack stack = stacks_get(s, id);

	fuzz_require(id <= stacks_count(s) && stack.count <= STACK_MAX_FRAMES + 2);
	for (uint32_t i = 0; i < stack.count; i++)
		fuzz_require(stack.pcs[i]);
}

/* Memory that was read later: the same bytes again, wherever they are asked for. */
static bool read_again(void *arg, uint64_t address, void *buffer, size_t size)
{
	const struct stack_memory *m = arg;

	if (!m->size)
		return false;
	for (size_t i = 0; i < size; i++)
		((uint8_t *)buffer)[i] = m->bytes[(address + i) % m->size];
	return true;
}

/* Any g is a goroutine, and is where the bytes say. */
static bool find_again(void *arg, uint64_t g, struct goroutine_place *ret)
{
	const struct stack_memory *m = arg;

	*ret = (struct goroutine_place){m->sp & ~0xfffull,
					(m->sp & ~0xfffull) + 8192,
					m->pc,
					m->sp + (g & 0xff8),
					m->lr,
					m->start_pc};
	return true;
}

static bool thread_sp_again(void *arg, uint64_t *ret)
{
	*ret = ((const struct stack_memory *)arg)->sp;
	return true;
}

/* The same as a sample of a thread that ran; with its chain. */
static void unwind_running(struct running_unwinder *u, struct stacks *s, bool arm64,
			   const struct stack_header *h, struct stack_memory *m)
{
	const struct register_roles *roles = register_roles(arm64 ? MACHINE_ARM64 : MACHINE_AMD64);
	struct running_source source = {read_again, find_again, thread_sp_again, m};
	struct running_sample sample = {
		.bytes = m->bytes,
		.size = m->size,
		.chain = h->words,
		.chain_count = h->chain % (MAX_CHAIN + 1),
		.g = h->words[0],
		.g_is_certain = h->whole & 1,
	};
	struct running_stack result;

	for (unsigned int i = 0; i < REGISTERS_MAX; i++)
		registers_set(&sample.regs, i, h->words[i % MAX_CHAIN]);
	registers_set(&sample.regs, roles->lr, h->lr);
	registers_set(&sample.regs, roles->pc, h->pc);
	registers_set(&sample.regs, roles->sp, h->sp);
	registers_set(&sample.regs, roles->fp, h->sp + (h->words[1] & 0xff8));
	fuzz_require(!running_unwind(u, &sample, &source, &result));
	check(s, result.stack);
}

/* By each method for which it takes no file. */
struct unwinders {
	struct stacks *stacks[2];
	struct running_unwinder *running[2];
};

static void unwinders_init(struct unwinders *u, const struct pclntab *functions,
			   enum machine machine)
{
	static const struct unwinding by[2] = {{UNWIND_PCSP, NULL}, {UNWIND_FP, NULL}};

	for (int i = 0; i < 2; i++) {
		u->stacks[i] = stacks_create(functions, machine);
		fuzz_require(u->stacks[i]);
		stacks_unwind_by(u->stacks[i], &by[i]);
		u->running[i] = running_unwinder_create(u->stacks[i], functions, machine, NULL);
		fuzz_require(u->running[i]);
	}
}

static void unwinders_release(struct unwinders *u)
{
	for (int i = 0; i < 2; i++) {
		running_unwinder_destroy(u->running[i]);
		stacks_destroy(u->stacks[i]);
	}
}

static void unwind_one(const struct unwinders *u, bool arm64, struct cursor *c)
{
	struct stack_header h;
	struct stack_memory m;
	uint8_t *bytes;
	uint32_t id, again;
	size_t left;

	memcpy(&h, cursor_bytes(c, sizeof(h)), sizeof(h));
	left = c->end - c->at;
	m = (struct stack_memory){
		.pc = h.pc,
		.sp = h.sp,
		.lr = h.lr,
		.fp = h.sp + (h.words[1] & 0xff8) - 16,
		.below = h.below & 16,
		.start_pc = h.start_pc,
		.exact_pc = h.exact_pc & 1,
		.size = h.size < left ? h.size : left,
		.whole = h.whole & 1,
	};
	bytes = calloc(1, m.below + m.size);
	fuzz_require(bytes);
	memcpy(bytes + m.below, cursor_bytes(c, m.size), m.size);
	m.bytes = bytes + m.below;
	for (int i = 0; i < 2; i++) {
		fuzz_require(!stacks_unwind(u->stacks[i], &m, &id));
		check(u->stacks[i], id);
		fuzz_accepted += id != STACK_NONE;
		/* By the template, if there is one now. */
		fuzz_require(!stacks_unwind(u->stacks[i], &m, &again) && id == again);
		unwind_running(u->running[i], u->stacks[i], arm64, &h, &m);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, "input");
	struct made_functions made;
	struct unwinders u;
	struct header h;

	if (size < sizeof(h))
		return 0;
	memcpy(&h, cursor_bytes(&c, sizeof(h)), sizeof(h));
	make_table(&h, &made);
	unwinders_init(&u, &made.tab, h.arm64 & 1 ? MACHINE_ARM64 : MACHINE_AMD64);
	for (int i = 0; i < h.stacks && (size_t)(c.end - c.at) >= sizeof(struct stack_header); i++)
		unwind_one(&u, h.arm64 & 1, &c);
	unwinders_release(&u);
	made_functions_release(&made);
	return 0;
}

/* main.f (0), called by main.f (1), by main.f (6), by goexit (7). On arm64 a return address lies at
 * the beginning of a frame. */
static void add_stack(struct strbuf *sb, bool arm64, bool chain)
{
	uint64_t words[32] =
		{[2] = made_pc(1, false), [6] = made_pc(6, true), [9] = made_pc(7, false)};
	uint64_t arm64_words[32] = {made_pc(1, false), 0, made_pc(6, true), 0, 0,
				    made_pc(7, false)};
	struct stack_header h = {
		.pc = made_pc(0, true),
		.sp = 0xc000000000,
		.lr = chain ? made_pc(1, false) : 0,
		.start_pc = MADE_TEXT + 6 * MADE_SIZE,
		.exact_pc = chain,
		.whole = !chain,
		.chain = chain ? 3 : 0,
		.size = sizeof(words),
		.words = {made_pc(1, false), made_pc(6, true), made_pc(7, false)},
	};

	strbuf_add(sb, &h, sizeof(h));
	strbuf_add(sb, arm64 ? arm64_words : words, sizeof(words));
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (int i = 0; i < 12; i++) {
		struct strbuf sb = STRBUF_INIT;
		struct header h = {.format = i / 4, .arm64 = i & 1, .stacks = 3};

		for (uint8_t k = 0; k < FUNCTIONS; k++) {
			h.functions[k].frame = 16 + 8 * (k % 3);
			h.functions[k].name = k == 5 ? 1 + (i & 1) : k == 7 ? 3 : 0;
			h.functions[k].flags = k == 7 ? FUNC_TOPFRAME : k == 4 ? FUNC_SPWRITE : 0;
		}
		strbuf_add(&sb, &h, sizeof(h));
		for (int k = 0; k < 3; k++)
			add_stack(&sb, i & 1, (i & 2) && k == 1);
		fuzz_require(!sb.failed);
		emit(arg, sb.data, sb.length);
		strbuf_release(&sb);
	}
}
