#include "image/debug_frame.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "image/debug_sections.h"
#include "image/registers.h"

/* No frame is as large; a larger number means a broken file. */
#define MAX_DELTA (1 << 30)

struct debug_frame {
	uint8_t *bytes;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *cfi;
	enum machine machine;
	uint64_t bias;
};

static void cleanup_elf(Elf **elf)
{
	elf_end(*elf);
}
#define _cleanup_elf_ __attribute__((cleanup(cleanup_elf)))

/* NULL: it is no ELF file, or has no such section. */
static Elf *open_with_section(const struct elf_file *file)
{
	size_t size;
	const uint8_t *whole = elf_file_whole(file, &size);
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)whole, size);
	if (elf && debug_section_find(elf, "frame").data)
		return elf;
	elf_end(elf);
	return NULL;
}

static struct error *open_section(struct debug_frame *f, Elf *original)
{
	static const char *const names[] = {"frame"};
	struct error *err;
	size_t size;

	err = debug_sections_build(original, names, 1, &f->bytes, &size);
	if (err)
		return err;
	f->elf = elf_memory((char *)f->bytes, size);
	f->dwarf = f->elf ? dwarf_begin_elf(f->elf, DWARF_C_READ, NULL) : NULL;
	f->cfi = f->dwarf ? dwarf_getcfi(f->dwarf) : NULL;
	return f->cfi ? NULL : error_format(ERROR_CORRUPT, "its .debug_frame is corrupt");
}

struct error *debug_frame_open(const struct image *img, struct debug_frame **ret)
{
	_cleanup_debug_frame_ struct debug_frame *f = calloc(1, sizeof(*f));
	const struct elf_file *file = img->elf;
	_cleanup_elf_ Elf *original = open_with_section(file);
	struct error *err;

	if (!f)
		return &error_no_memory;
	if (!original && img->unstripped)
		original = open_with_section(file = img->unstripped);
	if (!original)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s has no .debug_frame (it has no DWARF), which --unwind dwarf needs; "
			"name an unstripped file of the same build with --exe, or omit --unwind",
			elf_file_name(file));
	f->machine = img->machine;
	f->bias = img->bias;
	err = open_section(f, original);
	if (err)
		return error_wrap(err, "%s", elf_file_name(file));
	*ret = take_ptr(f);
	return NULL;
}

void debug_frame_close(struct debug_frame *f)
{
	if (!f)
		return;
	dwarf_end(f->dwarf);
	elf_end(f->elf);
	free(f->bytes);
	free(f);
}

/* CFA = SP + *ret */
static bool cfa_from_sp(Dwarf_Frame *frame, int sp, int64_t *ret)
{
	Dwarf_Op *ops;
	size_t count;

	if (dwarf_frame_cfa(frame, &ops, &count) || count != 1)
		return false;
	*ret = ops[0].number;
	if (ops[0].atom == DW_OP_bregx) {
		*ret = ops[0].number2;
		return ops[0].number == (uint64_t)sp;
	}
	return ops[0].atom == DW_OP_breg0 + sp;
}

/* The return address is at CFA + *ret, or, *ret being 0, where the function found it. */
static bool return_address(Dwarf_Frame *frame, int ra, int64_t *ret)
{
	Dwarf_Op room[3], *ops;
	size_t count;

	if (ra < 0 || dwarf_frame_register(frame, ra, room, &ops, &count))
		return false;
	*ret = 0;
	if (count == 2 && ops[1].atom == DW_OP_plus_uconst)
		*ret = ops[1].number;
	return !count || (ops[0].atom == DW_OP_call_frame_cfa &&
			  (count == 1 || (count == 2 && ops[1].atom == DW_OP_plus_uconst)));
}

bool debug_frame_sp_delta(const struct debug_frame *f, uint64_t pc, int32_t *ret)
{
	_cleanup_free_ Dwarf_Frame *frame = NULL;
	int64_t cfa, at;

	if (dwarf_cfi_addrframe(f->cfi, pc - f->bias, &frame) ||
	    !cfa_from_sp(frame, register_roles(f->machine)->sp, &cfa) ||
	    !return_address(frame, dwarf_frame_info(frame, NULL, NULL, NULL), &at) || cfa < 0 ||
	    cfa > MAX_DELTA)
		return false;
	if (f->machine == MACHINE_AMD64) {
		*ret = cfa - 8;
		return at == -8 && cfa >= 8;
	}
	*ret = cfa;
	return at == -cfa;
}
