/*
 * At a probe site X22 to X25 and the flags are free, X28 is the g that runs, X29 the function's
 * frame (hooks/probe_site.h). Nothing is written to the stack that the thread is on: goroutines
 * have little room, and below SP lies the frame pointer. The thread's vectors are not touched. X28
 * stays what it is in the agent, too: Go's signal handlers take it for the g.
 *
 * Jumps between the program and the stubs are direct, and the stubs' pages are not guarded: code
 * with branch targets (BTI) neither helps nor hinders. No address is signed.
 */
#include "hooks/stub_code.h"

#include <stddef.h>
#include <string.h>

#include "agent/blob.h"

const size_t stub_code_bytes = 64, stub_code_common_bytes = 2560;

enum { STATUS_REGISTER = 22, OLD_SP, SLOT, RESUME, G = 28, FP, LR, SP, ZERO = 31 };
enum { EQ = 0, NE = 1, HS = 2 };
enum { SAVED_BYTES = 160, PAGE = 4096 };

static void emit(struct code *c, uint32_t insn)
{
	code_put(c, &insn, sizeof(insn));
}

/* ---- instructions ---- */

/* A jump of `bits` bits of distance, which begin at bit `first`. */
static uint32_t branch_to(struct code *c, uint32_t insn, size_t from, uint64_t to, int bits,
			  int first)
{
	int64_t distance = (int64_t)(to - (c->address + from)) / 4, limit = 1ll << (bits - 1);

	c->failed |= distance < -limit || distance >= limit;
	return insn | ((uint32_t)distance & ((1u << bits) - 1)) << first;
}

static void emit_jump(struct code *c, uint64_t to)
{
	emit(c, branch_to(c, 0x14000000, c->at, to, 26, 0));
}

static void emit_call(struct code *c, uint64_t to)
{
	emit(c, branch_to(c, 0x94000000, c->at, to, 26, 0));
}

/* Jumps of 19 bits, to what is here or to what patch() finds later. */
static uint32_t cbz(unsigned int reg, bool wide)
{
	return (wide ? 0xb4000000 : 0x34000000) | reg;
}

static uint32_t cbnz(unsigned int reg)
{
	return 0x35000000 | reg;
}

static uint32_t b_if(unsigned int condition)
{
	return 0x54000000 | condition;
}

static void emit_branch(struct code *c, uint32_t insn, uint64_t to)
{
	emit(c, branch_to(c, insn, c->at, to, 19, 5));
}

static size_t emit_ahead(struct code *c, uint32_t insn)
{
	emit(c, insn);
	return c->at - sizeof(insn);
}

static void patch(struct code *c, size_t at)
{
	uint32_t insn;

	if (c->failed)
		return;
	memcpy(&insn, c->page + at, sizeof(insn));
	insn = branch_to(c, insn, at, code_here(c), 19, 5);
	memcpy(c->page + at, &insn, sizeof(insn));
}

/* A load or store of 4 or 8 bytes. */
static void emit_memory(struct code *c, uint32_t insn, unsigned int reg, unsigned int base,
			uint64_t offset)
{
	unsigned int scale = insn >> 30;

	c->failed |= offset & ((1u << scale) - 1) || offset >> scale >= 4096;
	emit(c, insn | (uint32_t)(offset >> scale) << 10 | base << 5 | reg);
}

static void load(struct code *c, unsigned int reg, unsigned int base, uint64_t offset)
{
	emit_memory(c, 0xf9400000, reg, base, offset);
}

static void load_half(struct code *c, unsigned int reg, unsigned int base, uint64_t offset)
{
	emit_memory(c, 0xb9400000, reg, base, offset);
}

static void store(struct code *c, unsigned int reg, unsigned int base, uint64_t offset)
{
	emit_memory(c, 0xf9000000, reg, base, offset);
}

static void add(struct code *c, unsigned int reg, unsigned int base, uint32_t constant)
{
	c->failed |= constant >= 4096;
	emit(c, 0x91000000 | constant << 10 | base << 5 | reg);
}

static void move(struct code *c, unsigned int to, unsigned int from)
{
	emit(c, 0xaa0003e0 | from << 16 | to);
}

/* reg = the page of the address */
static void page_of(struct code *c, unsigned int reg, uint64_t address)
{
	int64_t pages = (int64_t)(address / PAGE - code_here(c) / PAGE);

	c->failed |= pages < -(1 << 20) || pages >= 1 << 20;
	emit(c, 0x90000000 | ((uint32_t)pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffff) << 5 |
			reg);
}

static void load_from(struct code *c, unsigned int reg, uint64_t address)
{
	page_of(c, reg, address);
	load(c, reg, reg, address % PAGE);
}

static void address_of(struct code *c, unsigned int reg, uint64_t address)
{
	page_of(c, reg, address);
	add(c, reg, reg, address % PAGE);
}

/* stp or ldp of two registers at SP + offset */
static void pair(struct code *c, uint32_t insn, unsigned int first, unsigned int second, int offset)
{
	emit(c, insn | ((uint32_t)(offset / 8) & 0x7f) << 15 | second << 10 | SP << 5 | first);
}

/* ---- the common code ---- */

/* Takes the slot of the P in X24 and marks it busy; jumps ahead if there is none. */
static void take_slot(struct code *c, const struct code_head *head, const struct stub_numbers *n,
		      size_t ret_jumps[3])
{
	ret_jumps[0] = emit_ahead(c, cbz(SLOT, true));
	load_half(c, SLOT, SLOT, n->p_id);
	c->failed |= n->p_slots >= 4096;
	emit(c, 0x7100001f | n->p_slots << 10 | SLOT << 5); /* cmp w24, slots */
	ret_jumps[1] = emit_ahead(c, b_if(HS));
	emit(c, 0xd3400000 | (64 - AGENT_SLOT_SHIFT) << 16 | (63 - AGENT_SLOT_SHIFT) << 10 |
			SLOT << 5 | SLOT); /* lsl x24, x24, shift */
	load_from(c, OLD_SP, head->control + offsetof(struct code_control, slots));
	emit(c, 0x8b000000 | OLD_SP << 16 | SLOT << 5 | SLOT); /* add x24, x24, x23 */
	load_half(c, OLD_SP, SLOT, offsetof(struct agent_slot, busy));
	ret_jumps[2] = emit_ahead(c, cbnz(OLD_SP));
	emit(c, 0x52800020 | OLD_SP); /* mov w23, 1 */
	emit_memory(c, 0xb9000000, OLD_SP, SLOT, offsetof(struct agent_slot, busy));
}

/* One of the fallback slots; when all are taken, the call is counted as lost. What is stored is the
 * slot's address, which is not 0. */
static void take_fallback(struct code *c, const struct code_head *head, size_t have)
{
	uint64_t again;

	_Static_assert(!offsetof(struct agent_slot, busy), "it is where the slot is");
	load_from(c, SLOT, head->code + offsetof(struct code_head, fallback_slots));
	for (unsigned int i = 0; i < AGENT_FALLBACK_SLOTS; i++) {
		size_t next;

		again = code_here(c);
		emit(c, 0x885ffc00 | SLOT << 5 | OLD_SP); /* ldaxr w23, [x24] */
		next = emit_ahead(c, cbnz(OLD_SP));
		emit(c, 0x88007c00 | OLD_SP << 16 | SLOT << 5 | SLOT); /* stxr w23, w24, [x24] */
		emit_branch(c, cbnz(OLD_SP), again);
		emit_jump(c, c->address + have);
		patch(c, next);
		emit(c, 0x91400000 | (AGENT_SLOT_BYTES >> 12) << 10 | SLOT << 5 |
				SLOT); /* add x24, x24, bytes of a slot */
	}
	emit(c, 0xd503305f | 15 << 8); /* clrex */
	address_of(c, SLOT, head->control + offsetof(struct code_control, lost));
	again = code_here(c);
	emit(c, 0xc85f7c00 | SLOT << 5 | OLD_SP); /* ldxr x23, [x24] */
	add(c, OLD_SP, OLD_SP, 1);
	emit(c, 0xc8007c00 | STATUS_REGISTER << 16 | SLOT << 5 | OLD_SP); /* stxr w22, x23, [x24] */
	emit_branch(c, cbnz(STATUS_REGISTER), again);
	emit(c, 0xd61f0000 | RESUME << 5); /* br x25 */
}

/* X0 to X18 and LR; the first of them are struct agent_registers. C keeps the others. */
static void save(struct code *c)
{
	store(c, RESUME, SLOT, offsetof(struct agent_slot, resume));
	add(c, OLD_SP, SP, 0);
	add(c, SP, SLOT, 0);
	pair(c, 0xa9800000, 0, 1, -SAVED_BYTES);
	for (unsigned int i = 2; i < 18; i += 2)
		pair(c, 0xa9000000, i, i + 1, (int)i * 8);
	pair(c, 0xa9000000, 18, LR, 18 * 8);
}

static void restore(struct code *c)
{
	for (unsigned int i = 2; i < 18; i += 2)
		pair(c, 0xa9400000, i, i + 1, (int)i * 8);
	pair(c, 0xa9400000, 18, LR, 18 * 8);
	pair(c, 0xa8c00000, 0, 1, SAVED_BYTES);
	add(c, SP, OLD_SP, 0);
	load(c, RESUME, SLOT, offsetof(struct agent_slot, resume));
	emit(c, 0x889ffc00 | SLOT << 5 | ZERO); /* stlr wzr, [x24] */
	emit(c, 0xd61f0000 | RESUME << 5);      /* br x25 */
}

/* The thread looks from here on as if it called the vDSO from the probe site. X3 = its m. */
static void set_vdso_marker(struct code *c, const struct stub_numbers *n, uint64_t site)
{
	load(c, 3, G, n->g_m);
	address_of(c, 4, site);
	store(c, 4, 3, n->m_vdso_pc);
	store(c, OLD_SP, 3, n->m_vdso_sp);
}

static void end_vdso(struct code *c, const struct stub_numbers *n)
{
	load(c, 3, G, n->g_m);
	store(c, ZERO, 3, n->m_vdso_sp);
}

/* reg = where the probe site's arguments are on the stack; the stub has how far from SP that is. */
static void stack_arguments(struct code *c, unsigned int reg)
{
	emit(c, 0x785fe000 | RESUME << 5 | reg);             /* ldurh reg, [x25, -2] */
	emit(c, 0x8b000000 | reg << 16 | OLD_SP << 5 | reg); /* add reg, x23, reg */
}

/* X0 to X2 = (g, old status, new status): as they are at the probe site, where they were saved, or
 * on the stack, where the latter two have 32 bits. */
static void load_change(struct code *c, const struct stub_numbers *n, bool are_there)
{
	if (n->stack_arguments) {
		stack_arguments(c, 3);
		load(c, 0, 3, 0);
		load_half(c, 1, 3, 8);
		load_half(c, 2, 3, 12);
	} else if (!are_there) {
		pair(c, 0xa9400000, 0, 1, 0);
		load(c, 2, SP, 16);
	}
}

/* (slot, X0, X1 << 16 | X2, thread, X29, X28): of agent_status() and agent_change() */
static void call_with_change(struct code *c, const struct stub_numbers *n, uint64_t function)
{
	emit(c, 0x2a014042); /* orr w2, w2, w1, lsl 16 */
	move(c, 1, 0);
	move(c, 0, SLOT);
	load(c, 3, G, n->g_m);
	move(c, 4, FP);
	move(c, 5, G);
	emit_call(c, function);
}

static void call_status(struct code *c, const struct code_head *head, const struct stub_numbers *n)
{
	size_t enough;

	set_vdso_marker(c, n, head->sites[HOOK_CASGSTATUS].address);
	load_change(c, n, true);
	call_with_change(c, n, head->agent + agent_blob_status);
	enough = emit_ahead(c, cbnz(0));
	load_change(c, n, false);
	call_with_change(c, n, head->agent + agent_blob_change);
	patch(c, enough);
	end_vdso(c, n);
}

/* (slot, X0, thread, X2, X28, SP): of agent_syscall() and agent_syscall_exit() */
static void call_syscall(struct code *c, const struct stub_numbers *n, uint64_t site,
			 uint64_t function)
{
	move(c, 1, 0);
	move(c, 6, 2);
	set_vdso_marker(c, n, site);
	move(c, 2, 3);
	move(c, 3, 6);
	move(c, 0, SLOT);
	move(c, 4, G);
	move(c, 5, OLD_SP);
	emit_call(c, function);
	end_vdso(c, n);
}

/* (slot, saved registers or arguments, hook, X28, SP, X29): of agent_entry() */
static void call_entry(struct code *c, const struct code_head *head, const struct stub_numbers *n)
{
	move(c, 0, SLOT);
	if (n->stack_arguments)
		stack_arguments(c, 1);
	else
		add(c, 1, SP, 0);
	emit(c, 0x785fc000 | RESUME << 5 | 2); /* ldurh w2, [x25, -4] */
	move(c, 3, G);
	move(c, 4, OLD_SP);
	move(c, 5, FP);
	emit_call(c, head->agent);
}

enum body { BODY_ENTRY, BODY_STATUS, BODY_SYSCALL, BODY_SYSCALL_EXIT, BODIES };
_Static_assert(BODIES <= STUB_ENTRIES, "each has an entry");

/*
 * What the stubs of several hooks share. X24 is the P, or 0; X25 is where to continue. The hook's
 * number precedes that, and where its arguments are on the stack, if they are.
 */
static uint64_t write_body(struct code *c, const struct code_head *head,
			   const struct stub_numbers *n, enum body body)
{
	uint64_t start = code_here(c);
	size_t jumps[3], have;

	take_slot(c, head, n, jumps);
	have = c->at;
	save(c);
	if (body == BODY_STATUS)
		call_status(c, head, n);
	else if (body == BODY_SYSCALL)
		call_syscall(c, n, head->sites[HOOK_SYSCALL].address,
			     head->agent + agent_blob_syscall);
	else if (body == BODY_SYSCALL_EXIT)
		call_syscall(c, n, head->sites[HOOK_SYSCALL_EXIT].address,
			     head->agent + agent_blob_syscall_exit);
	else
		call_entry(c, head, n);
	restore(c);
	for (unsigned int i = 0; i < 3; i++)
		patch(c, jumps[i]);
	take_fallback(c, head, have);
	return start;
}

/* ---- the stubs ---- */

/* The replaced instruction, and the jump back behind it. adrp alone depends on where it is. */
static void go_on(struct code *c, const struct code_site *site)
{
	uint32_t insn;

	memcpy(&insn, site->bytes, sizeof(insn));
	if ((insn & 0x9f000000) == 0x90000000) {
		int64_t pages = (insn >> 5 & 0x7ffff) << 2 | (insn >> 29 & 3);

		pages = (pages ^ 1 << 20) - (1 << 20);
		page_of(c, insn & 31, (site->address & ~(PAGE - 1ull)) + pages * PAGE);
	} else {
		emit(c, insn);
	}
	emit_jump(c, site->address + site->length);
}

/* X24 = the P */
static void load_p(struct code *c, const struct stub_numbers *n, enum stub_p kind,
		   unsigned int arguments)
{
	if (kind == STUB_P_ARGUMENT) {
		if (n->stack_arguments)
			load(c, SLOT, SP, arguments);
		else
			move(c, SLOT, 0);
		return;
	}
	load(c, SLOT, G, n->g_m);
	load(c, SLOT, SLOT, n->m_p);
	if (kind != STUB_CASGSTATUS_NO_P_IN_SYSCALL)
		return;
	/* No P from _Gsyscall or _Gdeadextra on. */
	emit(c, 0x7100001f | 3 << 10 | 1 << 5);                         /* cmp w1, 3 */
	emit(c, 0x7a400800 | 11 << 16 | NE << 12 | 1 << 5 | 4);         /* ccmp w1, 11, Z, ne */
	emit(c, 0x9a800000 | SLOT << 16 | EQ << 12 | ZERO << 5 | SLOT); /* csel x24, xzr, x24, eq */
}

static enum body body_of(enum stub_p kind)
{
	if (kind == STUB_CASGSTATUS || kind == STUB_CASGSTATUS_NO_P_IN_SYSCALL)
		return BODY_STATUS;
	if (kind == STUB_SYSCALL)
		return BODY_SYSCALL;
	return kind == STUB_SYSCALL_EXIT ? BODY_SYSCALL_EXIT : BODY_ENTRY;
}

/* A body that refers to a function's address can reach it only if the program has it. */
static bool is_needed(const struct code_head *head, enum body body)
{
	static const enum agent_hook hooks[BODIES] = {[BODY_STATUS] = HOOK_CASGSTATUS,
						      [BODY_SYSCALL] = HOOK_SYSCALL,
						      [BODY_SYSCALL_EXIT] = HOOK_SYSCALL_EXIT};

	return body == BODY_ENTRY || head->sites[hooks[body]].address;
}

void stub_code_write_common(struct code *c, const struct code_head *head,
			    const struct stub_numbers *n, uint64_t ret_entries[STUB_ENTRIES])
{
	/* The stubs and the switch are reached by adrp. */
	c->failed |= head->control % PAGE != 0;
	for (unsigned int i = 0; i < BODIES; i++)
		ret_entries[i] = is_needed(head, i) ? write_body(c, head, n, i) : 0;
}

void stub_code_write(struct code *c, const struct code_head *head, const struct stub_numbers *n,
		     unsigned int hook, enum stub_p kind, const uint64_t entries[STUB_ENTRIES])
{
	size_t out;

	/* The first thing, for in a child of fork nothing else is there. */
	page_of(c, RESUME, head->control);
	load_half(c, SLOT, RESUME, offsetof(struct code_control, enabled));
	out = emit_ahead(c, cbz(SLOT, false));
	load_p(c, n, kind, head->sites[hook].arguments);
	emit(c, 0x10000000 | 3 << 5 | RESUME); /* adr x25, 12 bytes ahead */
	emit_jump(c, entries[body_of(kind)]);
	emit(c, hook | (uint32_t)head->sites[hook].arguments << 16);
	patch(c, out);
	/* Otherwise a later signal saves our address with the registers, and the detach, which
	 * looks for such addresses, would wait (inject/detach.c). */
	emit(c, 0xd2800000 | RESUME); /* mov x25, 0 */
	go_on(c, &head->sites[hook]);
}

void trampoline_write(const struct code_site *site, uint8_t ret[CODE_TRAMPOLINE_BYTES])
{
	static const uint32_t jump[] = {0x58000040 | RESUME, 0xd61f0000 | RESUME << 5};

	memcpy(ret, jump, sizeof(jump)); /* ldr x25, [8 bytes ahead]; br x25 */
	memcpy(ret + sizeof(jump), &site->stub, sizeof(site->stub));
}
