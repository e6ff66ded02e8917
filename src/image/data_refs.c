#include "image/data_refs.h"

#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MAX_FUNCTION_SIZE (64u << 10)
#define ARM64_REGISTERS 31

/* What decoding one function needs. */
struct decoder {
	csh handle;
	cs_insn *insn;
	struct data_refs *refs;
	bool failed; /* no memory */
	/* arm64: the page that adrp put into each register, 0 when none is known. */
	uint64_t pages[ARM64_REGISTERS];
};

static void decoder_release(struct decoder *d)
{
	if (d->insn)
		cs_free(d->insn, 1);
	if (d->handle)
		cs_close(&d->handle);
}

static bool decoder_init(struct decoder *d, enum machine machine)
{
	bool amd64 = machine == MACHINE_AMD64;

	if (cs_open(amd64 ? CS_ARCH_X86 : CS_ARCH_ARM64, amd64 ? CS_MODE_64 : CS_MODE_ARM,
		    &d->handle) != CS_ERR_OK)
		return false;
	cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	d->insn = cs_malloc(d->handle);
	return d->insn;
}

static void add_ref(struct decoder *d, uint64_t address)
{
	struct data_refs *r = d->refs;

	if (!array_reserve(&r->items, &r->capacity, r->count + 1))
		d->failed = true;
	else
		r->items[r->count++] = address;
}

static void visit_amd64(struct decoder *d)
{
	const cs_x86 *x = &d->insn->detail->x86;

	for (int i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && x->operands[i].mem.base == X86_REG_RIP)
			add_ref(d, d->insn->address + d->insn->size + x->operands[i].mem.disp);
}

/* The place of a register in `pages`; ARM64_REGISTERS when it is none of x0 to x30. */
static size_t page_index(unsigned int reg)
{
	if (reg == ARM64_REG_X29)
		return 29;
	if (reg == ARM64_REG_X30)
		return 30;
	return reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28 ? reg - ARM64_REG_X0 : ARM64_REGISTERS;
}

static uint64_t page_of(const struct decoder *d, unsigned int reg)
{
	size_t i = page_index(reg);

	return i < ARM64_REGISTERS ? d->pages[i] : 0;
}

static void set_page(struct decoder *d, unsigned int reg, uint64_t page)
{
	size_t i = page_index(reg);

	if (i < ARM64_REGISTERS)
		d->pages[i] = page;
}

/* An operand with an address relative to a register that holds a page. */
static void visit_arm64_memory(struct decoder *d, const cs_arm64 *a)
{
	for (int i = 0; i < a->op_count; i++) {
		const cs_arm64_op *op = &a->operands[i];

		if (op->type == ARM64_OP_MEM && op->mem.index == ARM64_REG_INVALID &&
		    page_of(d, op->mem.base))
			add_ref(d, page_of(d, op->mem.base) + op->mem.disp);
	}
}

static void forget_written(struct decoder *d)
{
	cs_regs read, written;
	uint8_t reads, writes;

	if (cs_regs_access(d->handle, d->insn, read, &reads, written, &writes) != CS_ERR_OK)
		return;
	for (uint8_t i = 0; i < writes; i++)
		set_page(d, written[i], 0);
}

static void visit_arm64(struct decoder *d)
{
	const cs_arm64 *a = &d->insn->detail->arm64;
	const cs_arm64_op *op = a->operands;
	uint64_t target;

	switch (d->insn->id) {
	case ARM64_INS_ADRP:
		set_page(d, op[0].reg, op[1].imm);
		return;
	case ARM64_INS_ADR:
		add_ref(d, op[1].imm);
		set_page(d, op[0].reg, 0);
		return;
	case ARM64_INS_ADD:
		if (a->op_count != 3 || op[1].type != ARM64_OP_REG || op[2].type != ARM64_OP_IMM)
			break;
		target = page_of(d, op[1].reg);
		if (target)
			add_ref(d, target + ((uint64_t)op[2].imm << op[2].shift.value));
		break;
	default:
		visit_arm64_memory(d, a);
	}
	forget_written(d);
}

static void decode(struct decoder *d, enum machine machine, const uint8_t *code, size_t size,
		   uint64_t address)
{
	size_t step = machine == MACHINE_AMD64 ? 1 : 4;

	while (size && !d->failed) {
		/* Data among the code (jump tables on arm64) is stepped over. */
		if (!cs_disasm_iter(d->handle, &code, &size, &address, d->insn)) {
			if (size < step)
				return;
			code += step;
			size -= step;
			address += step;
		} else if (machine == MACHINE_AMD64) {
			visit_amd64(d);
		} else {
			visit_arm64(d);
		}
	}
}

struct error *data_refs_of(const struct image *img, const char *function, struct data_refs *ret)
{
	__attribute__((cleanup(decoder_release))) struct decoder d = {.refs = ret};
	struct go_func f;
	const uint8_t *code;

	*ret = (struct data_refs){0};
	if (!pclntab_find_name(&img->functions, function, &f))
		return error_format(ERROR_FAILED, "%s has no function %s", elf_file_name(img->elf),
				    function);
	code = f.end > f.entry && f.end - f.entry <= MAX_FUNCTION_SIZE
		       ? image_bytes(img, f.entry, f.end - f.entry)
		       : NULL;
	if (!code)
		return error_format(ERROR_CORRUPT, "%s does not contain the code of %s", function,
				    elf_file_name(img->elf));
	if (!decoder_init(&d, img->machine))
		return error_format(ERROR_FAILED,
				    "Capstone cannot disassemble the code of this architecture");
	decode(&d, img->machine, code, f.end - f.entry, f.entry);
	if (!d.failed)
		return NULL;
	data_refs_release(ret);
	return &error_no_memory;
}

void data_refs_release(struct data_refs *refs)
{
	free(refs->items);
	*refs = (struct data_refs){0};
}
