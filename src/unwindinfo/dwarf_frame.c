#include "unwindinfo/dwarf_frame.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Source: DW_EH_PE_* of the Linux Standard Base. */
enum { PE_UDATA4 = 0x03, PE_SDATA4 = 0x0b, PE_PCREL = 0x10, PE_DATAREL = 0x30 };

#define EH_VERSION 1
#define DEBUG_VERSION 3
#define DEBUG_CIE_ID UINT32_MAX
#define DATA_ALIGN (-8)

struct convention {
	uint8_t sp, fp;
	uint8_t code_align;
	uint8_t pushed; /* bytes of the return address that the call itself has pushed */
};

static const struct convention conventions[] = {
	[MACHINE_AMD64] = {AMD64_RSP, AMD64_RBP, 1, 8},
	[MACHINE_ARM64] = {ARM64_SP, ARM64_FP, 4, 0},
};

/* Below an injected call on arm64 lies the LR of the interrupted function: sigctxt.pushCall. */
#define INJECTED_LR 16

static void put_u8(struct strbuf *sb, uint8_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void put_u16(struct strbuf *sb, uint16_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void put_u32(struct strbuf *sb, uint32_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void put_u64(struct strbuf *sb, uint64_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void put_sleb(struct strbuf *sb, int64_t value)
{
	bool more = true;

	while (more) {
		uint8_t byte = value & 0x7f;

		value >>= 7;
		more = value != (byte & 0x40 ? -1 : 0);
		put_u8(sb, byte | (more ? 0x80 : 0));
	}
}

/* A distance between two addresses, in 4 bytes. */
static void put_distance(struct dwarf_frame *d, struct strbuf *sb, uint64_t from, uint64_t to)
{
	int64_t distance = to - from;

	d->too_far |= distance != (int32_t)distance;
	put_u32(sb, distance);
}

/* Fills up an entry that begins at `from`, and writes its length. */
static void end_entry(struct strbuf *sb, size_t from)
{
	uint32_t length;

	while (sb->length % 8 && !sb->failed)
		put_u8(sb, DW_CFA_nop);
	length = sb->length - from - sizeof(length);
	if (!sb->failed)
		memcpy(sb->data + from, &length, sizeof(length));
}

static uint8_t return_column(enum machine machine, enum function_kind kind)
{
	if (machine == MACHINE_AMD64)
		return AMD64_PC;
	return kind == KIND_INJECTED ? ARM64_PC : ARM64_LR;
}

static void put_offset(struct strbuf *sb, uint8_t number, uint32_t below_cfa)
{
	put_u8(sb, DW_CFA_offset | number);
	strbuf_add_uvarint(sb, below_cfa / -DATA_ALIGN);
}

static void put_rule(struct strbuf *sb, uint8_t rule, uint8_t number)
{
	put_u8(sb, rule);
	put_u8(sb, number);
}

/* At the entry of a function. */
static void put_initial(struct strbuf *sb, enum machine machine)
{
	const struct convention *c = &conventions[machine];

	put_rule(sb, DW_CFA_def_cfa, c->sp);
	put_u8(sb, c->pushed);
	if (c->pushed)
		put_offset(sb, AMD64_PC, c->pushed);
	else
		put_rule(sb, DW_CFA_same_value, ARM64_LR);
}

/* The common part of the functions of one kind: its place in the section. */
static size_t common_part(struct dwarf_frame *d, enum function_kind kind)
{
	struct strbuf *sb = &d->bytes;
	size_t from = sb->length;

	if (d->common[kind])
		return d->common[kind] - 1;
	d->common[kind] = from + 1;
	put_u32(sb, 0);
	put_u32(sb, d->is_eh ? 0 : DEBUG_CIE_ID);
	put_u8(sb, d->is_eh ? EH_VERSION : DEBUG_VERSION);
	strbuf_adds(sb, d->is_eh ? "zR" : kind ? "z" : "");
	strbuf_adds(sb, kind ? "S" : "");
	put_u8(sb, 0);
	put_u8(sb, conventions[d->machine].code_align);
	put_sleb(sb, DATA_ALIGN);
	put_u8(sb, return_column(d->machine, kind));
	if (d->is_eh || kind)
		put_u8(sb, d->is_eh);
	if (d->is_eh)
		put_u8(sb, PE_PCREL | PE_SDATA4);
	put_initial(sb, d->machine);
	end_entry(sb, from);
	return from;
}

static void put_advance(struct dwarf_frame *d, uint64_t bytes)
{
	uint64_t units = bytes / conventions[d->machine].code_align;
	struct strbuf *sb = &d->bytes;

	if (units < 0x40) {
		put_u8(sb, DW_CFA_advance_loc | units);
	} else if (units <= UINT8_MAX) {
		put_u8(sb, DW_CFA_advance_loc1);
		put_u8(sb, units);
	} else if (units <= UINT16_MAX) {
		put_u8(sb, DW_CFA_advance_loc2);
		put_u16(sb, units);
	} else {
		put_u8(sb, DW_CFA_advance_loc4);
		put_u32(sb, units);
	}
}

/* Where the return address is, once it is not where the call has put it. */
static void put_return(struct strbuf *sb, enum machine machine, int32_t delta)
{
	if (machine == MACHINE_AMD64)
		put_offset(sb, AMD64_PC, conventions[machine].pushed);
	else if (delta)
		put_offset(sb, ARM64_LR, delta);
	else
		put_rule(sb, DW_CFA_same_value, ARM64_LR);
}

/* arm64: under an injected call the return address is the interrupted pc, and LR the interrupted
 * function's. */
static void put_injected(struct strbuf *sb, int32_t delta)
{
	put_u8(sb, DW_CFA_def_cfa_offset);
	strbuf_add_uvarint(sb, delta + INJECTED_LR);
	put_offset(sb, ARM64_LR, INJECTED_LR);
	put_rule(sb, delta ? DW_CFA_offset_extended : DW_CFA_register, ARM64_PC);
	strbuf_add_uvarint(sb, delta ? (delta + INJECTED_LR) / -DATA_ALIGN : ARM64_LR);
}

static void put_fp(struct strbuf *sb, enum machine machine, const struct frame_row *row,
		   uint32_t frame)
{
	const struct convention *c = &conventions[machine];

	if (row->fp == FP_SAVED)
		put_offset(sb, c->fp, machine == MACHINE_AMD64 ? 16 : frame + 8);
	else
		put_rule(sb, row->fp == FP_UNKNOWN ? DW_CFA_undefined : DW_CFA_same_value, c->fp);
}

static void put_row(struct dwarf_frame *d, enum function_kind kind, const struct frame_row *before,
		    const struct frame_row *row)
{
	bool injected = kind == KIND_INJECTED && d->machine == MACHINE_ARM64;
	bool moves = row->delta != before->delta;
	struct strbuf *sb = &d->bytes;

	if (row->delta < 0) {
		if (moves)
			put_rule(sb, DW_CFA_undefined, return_column(d->machine, kind));
		return;
	}
	if (injected) {
		put_injected(sb, row->delta);
	} else if (moves) {
		put_u8(sb, DW_CFA_def_cfa_offset);
		strbuf_add_uvarint(sb, row->delta + conventions[d->machine].pushed);
		if (d->machine == MACHINE_ARM64 || before->delta < 0)
			put_return(sb, d->machine, row->delta);
	}
	if (row->fp != before->fp || (moves && d->machine == MACHINE_ARM64 && row->fp == FP_SAVED))
		put_fp(sb, d->machine, row, row->delta + (injected ? INJECTED_LR : 0));
}

static void put_rows(struct dwarf_frame *d, const struct go_func *f, const struct frame_rows *rows)
{
	struct frame_row before = {.address = f->entry, .fp = FP_IN_REGISTER};

	for (size_t i = 0; i < rows->count; i++) {
		const struct frame_row *row = &rows->items[i];

		if (row->address > before.address)
			put_advance(d, row->address - before.address);
		put_row(d, rows->kind, &before, row);
		/* Where the stack ends, nothing is said of the frame pointer. */
		before = (struct frame_row){row->address, row->delta,
					    row->delta < 0 ? before.fp : row->fp};
	}
}

/* The kernel calls it with SP at the ucontext. Source: asm/sigcontext.h, asm/ucontext.h. */
static void put_sigreturn(struct strbuf *sb)
{
	static const struct {
		uint8_t number, at;
	} saved[] = {{8, 40},          {9, 48},          {10, 56},         {11, 64},
		     {12, 72},         {13, 80},         {14, 88},         {15, 96},
		     {AMD64_RDI, 104}, {AMD64_RSI, 112}, {AMD64_RBP, 120}, {AMD64_RBX, 128},
		     {AMD64_RDX, 136}, {AMD64_RAX, 144}, {AMD64_RCX, 152}, {AMD64_RSP, 160},
		     {AMD64_PC, 168}};

	put_u8(sb, DW_CFA_def_cfa_expression);
	put_u8(sb, 4);
	put_u8(sb, DW_OP_breg0 + AMD64_RSP);
	put_sleb(sb, 160);
	put_u8(sb, DW_OP_deref);
	for (size_t i = 0; i < ARRAY_SIZE(saved); i++) {
		put_rule(sb, DW_CFA_expression, saved[i].number);
		put_u8(sb, saved[i].at < 64 ? 2 : 3);
		put_u8(sb, DW_OP_breg0 + AMD64_RSP);
		put_sleb(sb, saved[i].at);
	}
}

/* `start`: of the function, which for .eh_frame is kept for the table. */
static void put_range(struct dwarf_frame *d, uint64_t start, uint64_t end, size_t from)
{
	struct strbuf *sb = &d->bytes;

	if (!d->is_eh) {
		put_u64(sb, start);
		put_u64(sb, end - start);
		return;
	}
	put_distance(d, sb, d->address + sb->length, start);
	put_u32(sb, end - start);
	if (!array_reserve(&d->all, &d->capacity, d->count + 1)) {
		d->failed = true;
		return;
	}
	d->all[d->count++] = (struct described_function){start, d->address + from};
}

void dwarf_frame_add(struct dwarf_frame *d, const struct go_func *f, const struct frame_rows *rows)
{
	size_t common = common_part(d, rows->kind), from = d->bytes.length;
	bool is_sigreturn = rows->kind == KIND_SIGRETURN && d->machine == MACHINE_AMD64;
	struct strbuf *sb = &d->bytes;

	put_u32(sb, 0);
	put_u32(sb, d->is_eh ? from + 4 - common : common);
	/* The kernel has made it the return address of the handler, and unwinders look 1 byte in
	 * front of that. */
	put_range(d, f->entry - is_sigreturn, rows->end, from);
	if (d->is_eh || rows->kind)
		put_u8(sb, 0);
	if (is_sigreturn)
		put_sigreturn(sb);
	else
		put_rows(d, f, rows);
	end_entry(sb, from);
	d->failed |= sb->failed;
}

void dwarf_frame_finish(struct dwarf_frame *d, uint64_t address, struct strbuf *ret_table)
{
	put_u32(&d->bytes, 0);
	d->failed |= d->bytes.failed;
	put_u8(ret_table, EH_VERSION);
	put_u8(ret_table, PE_PCREL | PE_SDATA4);
	put_u8(ret_table, PE_UDATA4);
	put_u8(ret_table, PE_DATAREL | PE_SDATA4);
	put_distance(d, ret_table, address + ret_table->length, d->address);
	put_u32(ret_table, d->count);
	for (size_t i = 0; i < d->count; i++) {
		put_distance(d, ret_table, address, d->all[i].start);
		put_distance(d, ret_table, address, d->all[i].at);
	}
	d->failed |= ret_table->failed;
}

void dwarf_frame_release(struct dwarf_frame *d)
{
	strbuf_release(&d->bytes);
	free(d->all);
}
