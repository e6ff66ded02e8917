#include "image/closure_calls.h"

#include <string.h>

#include "image/amd64.h"

#define MAX_FUNCTION_SIZE (64u << 10)

static bool is_entry(const struct image *img, uint64_t address)
{
	struct go_func f;

	return pclntab_find(&img->functions, address, &f) && f.entry == address;
}

/* The code refers to the closure itself, or to a word of read-only data that points to it. */
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
	/* In a position-independent program the word is a relocation. */
	elf_file_relocate(img->elf, address - img->bias, &word, sizeof(word), img->bias);
	return is_entry(img, word) ? word : 0;
}

/* The code of one function from an address on. */
struct listing {
	const uint8_t *code;
	size_t size;
	uint64_t address;
};

static bool next(struct listing *l, struct amd64_insn *ret)
{
	if (!amd64_decode(l->code, l->size, ret))
		return false;
	l->code += ret->length;
	l->size -= ret->length;
	l->address += ret->length;
	return true;
}

size_t closure_calls_find(const struct image *img, uint64_t caller, uint64_t callee,
			  struct closure_call *ret, size_t max)
{
	struct listing l = {.address = caller};
	struct amd64_insn insn;
	struct go_func f;
	uint64_t closure = 0;
	size_t count = 0;

	if (img->machine != MACHINE_AMD64 || !pclntab_find(&img->functions, caller, &f) ||
	    f.entry != caller || f.end <= f.entry || f.end - f.entry > MAX_FUNCTION_SIZE)
		return 0;
	l.code = image_bytes(img, f.entry, f.end - f.entry);
	l.size = l.code ? f.end - f.entry : 0;
	while (next(&l, &insn)) {
		uint64_t named = 0;

		if (amd64_is_lea(&insn) && insn.base == MODRM_PC)
			named = closure_named_by(img, l.address + insn.displacement);
		if (named)
			closure = named;
		if (!amd64_is_call(&insn) || l.address + insn.relative != callee)
			continue;
		if (count < max)
			ret[count] = (struct closure_call){l.address, closure};
		closure = 0;
		count++;
	}
	return count;
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
