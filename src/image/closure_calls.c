#include "image/closure_calls.h"

#include <capstone/capstone.h>
#include <string.h>

#define MAX_FUNCTION_SIZE (64u << 10)

static bool is_entry(const struct image *img, uint64_t address)
{
	struct go_func f;

	return pclntab_find(&img->functions, address, &f) && f.entry == address;
}

/* The code of a closure is named itself, or by a word of read-only data that points to it. */
static uint64_t closure_named_by(const struct image *img, uint64_t address)
{
	const uint8_t *bytes;
	uint64_t word;

	if (is_entry(img, address))
		return address;
	bytes = image_bytes(img, address, sizeof(word));
	if (!bytes)
		return 0;
	memcpy(&word, bytes, sizeof(word));
	/* Of a position-independent program the file has the word elsewhere. */
	elf_file_relocate(img->elf, address - img->bias, &word, sizeof(word), img->bias);
	return is_entry(img, word) ? word : 0;
}

/* LEA of an address relative to the pc; 0: it is no such instruction. */
static uint64_t lea_target(const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	if (insn->id != X86_INS_LEA || op[1].type != X86_OP_MEM || op[1].mem.base != X86_REG_RIP)
		return 0;
	return insn->address + insn->size + op[1].mem.disp;
}

static bool is_call_of(const cs_insn *insn, uint64_t callee)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	return insn->id == X86_INS_CALL && op[0].type == X86_OP_IMM &&
	       (uint64_t)op[0].imm == callee;
}

/* The code that one function has. */
struct listing {
	const uint8_t *code;
	size_t size;
	uint64_t address;
};

static size_t find_calls(const struct image *img, csh handle, cs_insn *insn, struct listing l,
			 uint64_t callee, struct closure_call *ret, size_t max)
{
	uint64_t closure = 0;
	size_t count = 0;

	while (cs_disasm_iter(handle, &l.code, &l.size, &l.address, insn)) {
		uint64_t named = lea_target(insn);

		named = named ? closure_named_by(img, named) : 0;
		if (named)
			closure = named;
		if (!is_call_of(insn, callee))
			continue;
		if (count < max)
			ret[count] = (struct closure_call){insn->address + insn->size, closure};
		closure = 0;
		count++;
	}
	return count;
}

size_t closure_calls_find(const struct image *img, uint64_t caller, uint64_t callee,
			  struct closure_call *ret, size_t max)
{
	struct listing l = {.address = caller};
	struct go_func f;
	cs_insn *insn;
	csh handle;
	size_t n = 0;

	if (img->machine != MACHINE_AMD64 || !pclntab_find(&img->functions, caller, &f) ||
	    f.entry != caller || f.end <= f.entry || f.end - f.entry > MAX_FUNCTION_SIZE)
		return 0;
	l.size = f.end - f.entry;
	l.code = image_bytes(img, f.entry, l.size);
	if (!l.code || cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return 0;
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	insn = cs_malloc(handle);
	if (insn) {
		n = find_calls(img, handle, insn, l, callee, ret, max);
		cs_free(insn, 1);
	}
	cs_close(&handle);
	return n;
}

/* CALL rel32 */
uint64_t call_target(const struct image *img, uint64_t return_address)
{
	const uint8_t *code = image_bytes(img, return_address - 5, 5);
	int32_t distance;

	if (img->machine != MACHINE_AMD64 || !code || code[0] != 0xe8)
		return 0;
	memcpy(&distance, code + 1, sizeof(distance));
	return return_address + distance;
}
