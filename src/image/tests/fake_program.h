/*
 * Small programs put together by a test: an ELF file with the given sections or code, and a
 * function table. For unit tests only.
 */
#ifndef IMAGE_TESTS_FAKE_PROGRAM_H
#define IMAGE_TESTS_FAKE_PROGRAM_H

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "image/image.h"

struct fake_section {
	const char *name;
	uint64_t flags;
	const void *bytes;
	size_t size;
};

static inline void fake_write(int fd, const void *bytes, size_t size, size_t at)
{
	assert_int_equal(pwrite(fd, bytes, size, at), size);
}

/* A file with these sections, and with `code`, if there is some, mapped at `address`. */
static inline struct elf_file *fake_elf(int machine, const struct fake_section *sections,
					size_t count, const void *code, size_t code_size,
					uint64_t address)
{
	Elf64_Shdr headers[8] = {{0}, {.sh_name = 1, .sh_type = SHT_STRTAB}};
	char names[256] = "\0.names";
	size_t names_size = 8, at = 4096;
	int fd = memfd_create("fake", MFD_CLOEXEC);
	struct elf_file *elf;
	Elf64_Phdr segment = {.p_type = PT_LOAD,
			      .p_flags = PF_R | PF_X,
			      .p_offset = at,
			      .p_vaddr = address,
			      .p_filesz = code_size,
			      .p_memsz = code_size};
	Elf64_Ehdr header = {.e_ident = ELFMAG "\2\1\1",
			     .e_type = ET_EXEC,
			     .e_machine = machine,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(header),
			     .e_shoff = 1024,
			     .e_ehsize = sizeof(header),
			     .e_phentsize = sizeof(segment),
			     .e_phnum = 1,
			     .e_shentsize = sizeof(headers[0]),
			     .e_shnum = count + 2,
			     .e_shstrndx = 1};

	assert_true(fd >= 0 && count + 2 <= ARRAY_SIZE(headers));
	fake_write(fd, code, code_size, at);
	at += code_size;
	for (size_t i = 0; i < count; i++) {
		headers[i + 2] = (Elf64_Shdr){.sh_name = names_size,
					      .sh_type = SHT_PROGBITS,
					      .sh_flags = sections[i].flags,
					      .sh_offset = at,
					      .sh_size = sections[i].size,
					      .sh_addralign = 1};
		strcpy(names + names_size, sections[i].name);
		names_size += strlen(sections[i].name) + 1;
		fake_write(fd, sections[i].bytes, sections[i].size, at);
		at += sections[i].size;
	}
	headers[1].sh_offset = at;
	headers[1].sh_size = names_size;
	fake_write(fd, names, names_size, at);
	fake_write(fd, &header, sizeof(header), 0);
	fake_write(fd, &segment, sizeof(segment), sizeof(header));
	fake_write(fd, headers, sizeof(headers), 1024);
	assert_null(elf_file_open(fd, "fake", &elf));
	return elf;
}

/* A function table in the format of Go 1.20: functions of `size` bytes each from `text` on. */
#define FAKE_FUNCTIONS 4

struct fake_functions {
	uint32_t ftab[FAKE_FUNCTIONS + 1][2];
	uint32_t funcs[FAKE_FUNCTIONS][11];
	char names[FAKE_FUNCTIONS][64];
};

static inline struct pclntab fake_pclntab(struct fake_functions *f, const char *const *names,
					  size_t count, uint64_t text, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		f->ftab[i][0] = f->funcs[i][0] = i * size;
		f->ftab[i][1] = i * sizeof(f->funcs[0]);
		f->funcs[i][1] = i * sizeof(f->names[0]);
		strcpy(f->names[i], names[i]);
	}
	f->ftab[count][0] = count * size;
	return (struct pclntab){
		.format = PCLNTAB_GO120,
		.quantum = 1,
		.text = text,
		.etext = text + count * size,
		.count = count,
		.ftab = {(const uint8_t *)f->ftab, sizeof(f->ftab)},
		.funcs = {(const uint8_t *)f->funcs, sizeof(f->funcs)},
		.names = {(const uint8_t *)f->names, sizeof(f->names)},
	};
}

#endif
