/*
 * The stack of a goroutine that runs, from the registers of its thread. The thread is in one of
 * these places, and each leads to where the goroutine itself is:
 *
 * - on the goroutine's stack, in Go code: there, at that very instruction;
 * - on the stack for signals: the kernel has put what was interrupted into the frame there; that is
 *   then one of the other two;
 * - on the thread's own stack (g0), in the runtime or in C: g.sched says where the goroutine left
 *   its stack (runtime/asm_*.s: systemstack, mcall, morestack, asmcgocall); gogo puts 0 there when
 *   it comes back.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "goroutine/set.h"

/* A signal stack in use is never larger. */
#define MAX_SIGNAL_STACK (256u << 10)

/* Offsets in Linux's struct ucontext: of uc_stack, and of the registers. */
#define UC_STACK_ADDRESS 16
#define UC_STACK_SIZE 32
#define UC_AMD64_RIP 168
#define UC_ARM64_X0 184
#define UC_ARM64_PC 440
#define UC_BYTES 448

/* By DWARF's number, as in struct target_registers. */
static const uint8_t uc_amd64[] = {144, 136, 152, 128, 112, 104, 120, 160,
				   40,  48,  56,  64,  72,  80,  88,  96};
enum { GENERAL_RBP = 6, GENERAL_RSP = 7, GENERAL_X29 = 29, GENERAL_X30 = 30, GENERAL_SP = 31 };

struct bounds {
	uint64_t lo;
	uint64_t hi;
};

static bool is_within(const struct bounds *b, uint64_t sp)
{
	return sp > b->lo && sp < b->hi && !(sp & 7);
}

static bool read_word(struct goroutine_set *set, uint64_t address, uint64_t *ret)
{
	return !error_dropped(target_read_u64(set->t, address, ret));
}

static bool read_bounds(struct goroutine_set *set, uint64_t g, struct bounds *ret)
{
	return read_word(set, g_at_stack_lo(&set->lay->n, g), &ret->lo) &&
	       read_word(set, g_at_stack_hi(&set->lay->n, g), &ret->hi) && ret->lo < ret->hi;
}

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

static struct target_registers amd64_registers(const uint8_t *ucontext)
{
	struct target_registers r = {.pc = word_at(ucontext, UC_AMD64_RIP)};

	for (size_t i = 0; i < ARRAY_SIZE(uc_amd64); i++)
		r.general[i] = word_at(ucontext, uc_amd64[i]);
	r.sp = r.general[GENERAL_RSP];
	r.fp = r.general[GENERAL_RBP];
	return r;
}

/* x0 to x30 and sp lie in a row. */
static struct target_registers arm64_registers(const uint8_t *ucontext)
{
	struct target_registers r = {.pc = word_at(ucontext, UC_ARM64_PC)};

	memcpy(r.general, ucontext + UC_ARM64_X0, sizeof(r.general));
	r.sp = r.general[GENERAL_SP];
	r.fp = r.general[GENERAL_X29];
	r.lr = r.general[GENERAL_X30];
	return r;
}

static struct place place_of(const struct goroutine_set *set, const uint8_t *ucontext)
{
	bool amd64 = set->img->machine == MACHINE_AMD64;

	return (struct place){amd64 ? amd64_registers(ucontext) : arm64_registers(ucontext), true};
}

/*
 * Finds the frame of the signal: its uc_stack names this very stack. Of nested signals it is the
 * first, which lies highest.
 */
static bool find_interrupted(const struct goroutine_set *set, const struct bounds *b,
			     const uint8_t *bytes, size_t size, struct place *ret)
{
	for (size_t at = size < UC_BYTES ? 0 : (size - UC_BYTES + 8) & ~(size_t)7; at >= 8;) {
		at -= 8;
		if (word_at(bytes, at + UC_STACK_ADDRESS) != b->lo ||
		    word_at(bytes, at + UC_STACK_SIZE) != b->hi - b->lo)
			continue;
		*ret = place_of(set, bytes + at);
		return true;
	}
	return false;
}

/* When the thread handles a signal, *p becomes the interrupted place. False: it cannot be found. */
static bool leave_signal(struct goroutine_set *set, uint64_t gsignal, struct place *p)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct bounds b;
	size_t size;

	if (!gsignal || !read_bounds(set, gsignal, &b) || !is_within(&b, p->registers.sp))
		return true;
	size = b.hi - p->registers.sp;
	if (size > MAX_SIGNAL_STACK)
		return false;
	bytes = malloc(size);
	return bytes && !error_dropped(target_read(set->t, p->registers.sp, bytes, size)) &&
	       find_interrupted(set, &b, bytes, size, p);
}

static bool is_code(const struct goroutine_set *set, uint64_t pc)
{
	return pclntab_is_code(&set->img->functions, pc);
}

bool running_place(struct goroutine_set *set, const uint8_t *header, struct place *ret)
{
	const struct golayout_numbers *n = &set->lay->n;
	struct g_view g = header_view(set, header);
	struct bounds own = {g_view_stack_lo(g), g_view_stack_hi(g)};
	uint64_t m = g_view_m(g), thread, gsignal;
	struct place p = {.exact = true};

	if (!m || !read_word(set, m_at_procid(n, m), &thread) ||
	    !read_word(set, m_at_gsignal(n, m), &gsignal) ||
	    !set->options.registers(set->options.registers_arg, thread, &p.registers) ||
	    !leave_signal(set, gsignal, &p))
		return false;
	if (!is_within(&own, p.registers.sp))
		p = (struct place){sched_of(set, header), false};
	*ret = p;
	return is_within(&own, p.registers.sp) && is_code(set, p.registers.pc);
}

struct error *running_stack(struct goroutine_set *set, struct pending_read *c)
{
	struct stack_memory memory = {.start_pc = c->start_pc};
	struct error *err;
	struct place p;

	c->now.stack = STACK_NONE;
	if (!running_place(set, c->header, &p))
		return NULL;
	memory.size = c->stack_end - p.registers.sp;
	if (memory.size > set->options.stack_limit)
		memory.size = set->options.stack_limit;
	memory.below = bytes_below(set, p.registers.sp);
	if (!array_reserve(&set->running_bytes, &set->running_capacity, memory.below + memory.size))
		return &error_no_memory;
	if (error_dropped(target_read(set->t, p.registers.sp - memory.below, set->running_bytes,
				      memory.below + memory.size)))
		return NULL;
	memory.pc = p.registers.pc;
	memory.sp = p.registers.sp;
	memory.lr = p.registers.lr;
	memory.exact_pc = p.exact;
	memory.fp = p.registers.fp;
	memory.bytes = set->running_bytes + memory.below;
	memory.whole = p.registers.sp + memory.size == c->stack_end;
	err = stacks_unwind(set->stacks, &memory, &c->now.stack);
	if (!err && c->now.stack != STACK_NONE)
		set->memory = (struct goroutine_memory){memory, p.exact, p.registers};
	return err;
}
