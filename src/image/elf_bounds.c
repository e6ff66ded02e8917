#include "image/elf_bounds.h"

#include <elf.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#define SMALL_HOLES (1u << 20)
#define MAX_EXTENTS (1u << 16)
/* Linux runs no program with more: fs/binfmt_elf.c, load_elf_phdrs(). */
#define MAX_SEGMENTS (65536 / sizeof(Elf64_Phdr))
#define MAX_NOTES (1u << 20)

static struct error *must_check refuse(const char *name, const char *why)
{
	return error_format(ERROR_CORRUPT, "%s is truncated or corrupt: %s", name, why);
}

struct error *elf_bounds_check_holes(int fd, const char *name)
{
	off_t size = lseek(fd, 0, SEEK_END), at = 0, stored = 0;

	for (unsigned int i = 0; at < size; i++) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;

		if (data < 0)
			break; /* the rest is a hole */
		hole = lseek(fd, data, SEEK_HOLE);
		at = hole < 0 ? size : hole;
		stored += at - data;
		if (i == MAX_EXTENTS)
			return refuse(name, "it is a sparse file with too many holes");
	}
	return size - stored > stored + SMALL_HOLES
		       ? refuse(name, "it is a sparse file, mostly holes")
		       : NULL;
}

static struct error *must_check check_kind(const Elf64_Ehdr *h, const char *name)
{
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return error_format(ERROR_NOT_GO, "%s is not an ELF executable", name);
	if (h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB &&
	    (h->e_machine == EM_X86_64 || h->e_machine == EM_AARCH64))
		return NULL;
	return error_format(
		ERROR_UNSUPPORTED,
		"%s is built for another architecture (ELF machine %d); gospect supports amd64 "
		"and arm64",
		name, h->e_machine);
}

static bool is_within(uint64_t offset, uint64_t count, size_t each, size_t size)
{
	return offset <= size && count <= (size - offset) / each;
}

/* Adds up valid sizes; invalid ones are refused where they are used. */
static void add(uint64_t *sum, uint64_t size)
{
	if (__builtin_add_overflow(*sum, size, sum))
		*sum = UINT64_MAX;
}

static struct error *must_check check_segments(const uint8_t *bytes, size_t size,
					       const Elf64_Ehdr *h, const char *name)
{
	uint64_t loaded = 0, notes = 0;

	if (h->e_phnum > MAX_SEGMENTS)
		return refuse(name, "it has more than 1,170 segments");
	if (!is_within(h->e_phoff, h->e_phnum, sizeof(Elf64_Phdr), size))
		return refuse(name, "its program headers lie outside the file");
	for (size_t i = 0; i < h->e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, bytes + h->e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_LOAD)
			add(&loaded, ph.p_filesz);
		if (ph.p_type == PT_NOTE)
			add(&notes, ph.p_filesz);
	}
	if (loaded > 2 * (uint64_t)size)
		return refuse(name, "its segments overlap or lie outside the file");
	return notes > MAX_NOTES ? refuse(name, "it has more than 1 MB of notes") : NULL;
}

/* A file whose section headers are missing is read without them, by libelf. */
static struct error *must_check check_sections(const uint8_t *bytes, size_t size,
					       const Elf64_Ehdr *h, const char *name)
{
	uint64_t sum = 0;

	if (!h->e_shoff)
		return NULL;
	if (!h->e_shnum)
		return refuse(name, "it has more than 65,279 sections");
	if (!is_within(h->e_shoff, h->e_shnum, sizeof(Elf64_Shdr), size))
		return NULL;
	for (size_t i = 0; i < h->e_shnum; i++) {
		Elf64_Shdr sh;

		memcpy(&sh, bytes + h->e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_NULL && sh.sh_type != SHT_NOBITS)
			add(&sum, sh.sh_size);
	}
	return sum > 2 * (uint64_t)size
		       ? refuse(name, "its sections overlap or lie outside the file")
		       : NULL;
}

struct error *elf_bounds_check(const uint8_t *bytes, size_t size, const char *name)
{
	Elf64_Ehdr h;
	struct error *err;

	if (size < sizeof(h))
		return error_format(ERROR_NOT_GO, "%s is too short to be an ELF executable", name);
	memcpy(&h, bytes, sizeof(h));
	err = check_kind(&h, name);
	if (!err)
		err = check_segments(bytes, size, &h, name);
	return err ? err : check_sections(bytes, size, &h, name);
}

const char *elf_bounds_string(Elf *elf, size_t section, size_t offset)
{
	Elf_Scn *scn = elf_getscn(elf, section);
	const char *whole, *string;
	size_t size, most;
	GElf_Shdr sh;

	whole = elf_rawfile(elf, &size);
	if (!scn || !whole || !gelf_getshdr(scn, &sh) || sh.sh_type != SHT_STRTAB ||
	    sh.sh_flags & SHF_COMPRESSED || sh.sh_offset > size ||
	    sh.sh_size > size - sh.sh_offset || offset >= sh.sh_size)
		return NULL;
	string = whole + sh.sh_offset + offset;
	most = sh.sh_size - offset < ELF_NAME_MAX ? sh.sh_size - offset : ELF_NAME_MAX;
	return memchr(string, '\0', most) ? string : NULL;
}
