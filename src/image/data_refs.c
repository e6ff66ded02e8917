#include "image/data_refs.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/amd64.h"
#include "image/arm64.h"

#define MAX_FUNCTION_SIZE (64u << 10)

static bool add_ref(struct data_refs *r, uint64_t address)
{
	if (!array_reserve(&r->items, &r->capacity, r->count + 1))
		return false;
	r->items[r->count++] = address;
	return true;
}

/* Skips bytes that are no code. False when there is no memory. */
static bool find_amd64(struct data_refs *r, const uint8_t *code, size_t size, uint64_t address)
{
	struct amd64_insn insn;

	for (size_t at = 0; at < size; at += insn.length) {
		if (!amd64_decode(code + at, size - at, &insn))
			insn.length = 1;
		else if (insn.base == MODRM_PC &&
			 !add_ref(r, address + at + insn.length + insn.displacement))
			return false;
	}
	return true;
}

/* The pages that adrp has put into registers; 0: none is known. */
struct pages {
	uint64_t of[ARM64_REGISTERS];
};

/* The address that the instruction refers to; 0: none. */
static uint64_t address_of(const struct pages *p, uint32_t insn, uint64_t at)
{
	uint64_t address, constant;
	int64_t displacement;
	uint32_t base;

	if (arm64_adr(insn, at, &address))
		return address;
	if (arm64_add(insn, &base, &constant))
		return p->of[base] ? p->of[base] + constant : 0;
	if (arm64_memory(insn, &base, &displacement))
		return p->of[base] ? p->of[base] + displacement : 0;
	return 0;
}

static void follow_pages(struct pages *p, uint32_t insn, uint64_t at)
{
	uint32_t written = arm64_written(insn), page_register;
	uint64_t page;

	if (arm64_is_call(insn))
		written |= 1u << ARM64_LR;
	for (size_t i = 0; i < ARM64_SP; i++)
		if (written >> i & 1)
			p->of[i] = 0;
	if (arm64_adrp(insn, at, &page_register, &page) && page_register != ARM64_SP)
		p->of[page_register] = page;
}

/* Skips data among the code (jump tables). */
static bool find_arm64(struct data_refs *r, const uint8_t *code, size_t size, uint64_t address)
{
	struct pages pages = {0};

	for (size_t at = 0; at + 4 <= size; at += 4) {
		uint64_t found;
		uint32_t insn;

		memcpy(&insn, code + at, sizeof(insn));
		if (!arm64_is_instruction(insn))
			continue;
		found = address_of(&pages, insn, address + at);
		if (found && !add_ref(r, found))
			return false;
		follow_pages(&pages, insn, address + at);
	}
	return true;
}

struct error *data_refs_of(const struct image *img, const char *function, struct data_refs *ret)
{
	struct go_func f;
	const uint8_t *code;
	bool done;

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
	done = img->machine == MACHINE_AMD64 ? find_amd64(ret, code, f.end - f.entry, f.entry)
					     : find_arm64(ret, code, f.end - f.entry, f.entry);
	if (done)
		return NULL;
	data_refs_release(ret);
	return &error_no_memory;
}

void data_refs_release(struct data_refs *refs)
{
	free(refs->items);
	*refs = (struct data_refs){0};
}
