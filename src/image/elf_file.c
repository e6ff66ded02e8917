#include "image/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/mapped_file.h"
#include "image/elf_bounds.h"

#define PAGE 4096

/* "" for a missing one. */
struct build_ids {
	char gnu[ELF_BUILD_ID_SIZE];
	char go[ELF_BUILD_ID_SIZE];
};

struct elf_file {
	char *name;
	struct mapped_file *mapping;
	const uint8_t *bytes; /* the whole file, mapped */
	size_t size;
	Elf *elf;
	enum machine machine;
	bool pie;
	bool dynamic;
	bool stripped;
	struct build_ids ids;
	struct elf_segment *segments;
	size_t segment_count;
	size_t segment_capacity;
	struct map objects; /* hash of a data symbol's name -> its value */
	bool objects_read;
};

static struct error *map_file(struct elf_file *elf, int fd)
{
	struct stat st;
	struct error *err;

	if (fstat(fd, &st))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", elf->name);
	if (S_ISDIR(st.st_mode))
		return error_format(ERROR_NOT_GO, "%s is a directory, not an executable",
				    elf->name);
	if (!S_ISREG(st.st_mode))
		return error_format(ERROR_NOT_GO,
				    "%s is not a regular file, so it is not an executable",
				    elf->name);
	if (st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return error_format(ERROR_NOT_GO, "%s is too short to be an ELF executable",
				    elf->name);
	err = elf_bounds_check_holes(fd, elf->name);
	if (!err)
		err = mapped_file_open(fd, st.st_size, elf->name, &elf->mapping);
	if (err)
		return err;
	elf->bytes = mapped_file_bytes(elf->mapping);
	elf->size = st.st_size;
	return NULL;
}

static struct error *read_header(struct elf_file *elf)
{
	struct error *err = elf_bounds_check(elf->bytes, elf->size, elf->name);
	GElf_Ehdr header;

	if (err)
		return err;
	elf_version(EV_CURRENT);
	elf->elf = elf_memory((char *)elf->bytes, elf->size);
	if (!elf->elf || !gelf_getehdr(elf->elf, &header))
		return error_format(ERROR_CORRUPT, "%s is a corrupt ELF file: %s", elf->name,
				    elf_errmsg(-1));
	elf->machine = header.e_machine == EM_X86_64 ? MACHINE_AMD64 : MACHINE_ARM64;
	elf->pie = header.e_type == ET_DYN;
	return NULL;
}

/* The linker's own note: cmd/link/internal/ld/elf.go. Programs of Go 1.23 and older have only it.
 */
#define NT_GO_BUILD_ID 4

static void set_build_id(struct build_ids *ids, const Elf64_Nhdr *note, const uint8_t *name,
			 const uint8_t *id)
{
	size_t size = note->n_descsz;

	if (note->n_namesz != 4 || size > ELF_BUILD_ID_SIZE / 2)
		return;
	if (!memcmp(name, "GNU", 4) && note->n_type == NT_GNU_BUILD_ID) {
		for (size_t i = 0; i < size; i++)
			sprintf(ids->gnu + 2 * i, "%02x", id[i]);
	} else if (!memcmp(name, "Go\0", 4) && note->n_type == NT_GO_BUILD_ID) {
		memcpy(ids->go, id, size);
	}
}

static void read_build_ids(const uint8_t *bytes, size_t size, uint64_t at, uint64_t length,
			   struct build_ids *ids)
{
	struct cursor c;

	if (at > size || length > size - at)
		return;
	c = cursor_of(bytes + at, length, "the notes");
	for (;;) {
		const void *header = cursor_bytes(&c, sizeof(Elf64_Nhdr));
		const uint8_t *name, *desc;
		Elf64_Nhdr note;

		if (!header)
			return;
		memcpy(&note, header, sizeof(note));
		name = cursor_bytes(&c, (note.n_namesz + 3ull) & ~3ull);
		desc = cursor_bytes(&c, note.n_descsz);
		if (!name || !desc)
			return;
		set_build_id(ids, &note, name, desc);
		cursor_bytes(&c, -note.n_descsz & 3);
	}
}

void elf_bytes_build_id(const void *bytes, size_t size, char ret[ELF_BUILD_ID_SIZE])
{
	struct build_ids ids = {0};
	Elf64_Ehdr header = {0};

	if (size >= sizeof(header))
		memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr ph;

		if (header.e_phoff > size || (size - header.e_phoff) / sizeof(ph) <= i)
			break;
		memcpy(&ph, (const char *)bytes + header.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_NOTE)
			read_build_ids(bytes, size, ph.p_offset, ph.p_filesz, &ids);
	}
	memcpy(ret, *ids.gnu ? ids.gnu : ids.go, ELF_BUILD_ID_SIZE);
}

static struct error *add_segment(struct elf_file *elf, const GElf_Phdr *ph)
{
	uint64_t end;

	/* Those of a separate debug file are empty, and begin anywhere. */
	if (__builtin_add_overflow(ph->p_offset, ph->p_filesz, &end) ||
	    (ph->p_filesz && end > elf->size) || ph->p_vaddr + ph->p_memsz < ph->p_vaddr ||
	    ph->p_filesz > ph->p_memsz)
		return error_format(ERROR_CORRUPT,
				    "%s is truncated or corrupt: a segment lies outside the file",
				    elf->name);
	if (!array_reserve(&elf->segments, &elf->segment_capacity, elf->segment_count + 1))
		return &error_no_memory;
	elf->segments[elf->segment_count++] = (struct elf_segment){
		.address = ph->p_vaddr,
		.file_size = ph->p_filesz,
		.memory_size = ph->p_memsz,
		.offset = ph->p_offset,
		.writable = ph->p_flags & PF_W,
		.executable = ph->p_flags & PF_X,
	};
	return NULL;
}

static struct error *read_segments(struct elf_file *elf)
{
	size_t count;
	GElf_Phdr ph;

	if (elf_getphdrnum(elf->elf, &count))
		return error_format(ERROR_CORRUPT, "%s is a corrupt ELF file: %s", elf->name,
				    elf_errmsg(-1));
	for (size_t i = 0; i < count && gelf_getphdr(elf->elf, i, &ph); i++) {
		struct error *err = NULL;

		if (ph.p_type == PT_LOAD)
			err = add_segment(elf, &ph);
		else if (ph.p_type == PT_INTERP)
			elf->dynamic = true;
		else if (ph.p_type == PT_NOTE)
			read_build_ids(elf->bytes, elf->size, ph.p_offset, ph.p_filesz, &elf->ids);
		if (err)
			return err;
	}
	return NULL;
}

/* Go's linker gives its programs both notes, but lists only its own among the segments:
 * cmd/link/internal/ld/elf.go. */
static void read_note_section(struct elf_file *elf)
{
	struct elf_section section;

	if (elf_file_section(elf, ".note.gnu.build-id", &section) && section.bytes)
		read_build_ids(section.bytes, section.size, 0, section.size, &elf->ids);
}

struct error *elf_file_open(int fd, const char *name, struct elf_file **ret)
{
	_cleanup_close_ int owned = fd;
	_cleanup_elf_file_ struct elf_file *elf = calloc(1, sizeof(*elf));
	struct elf_section section;
	struct error *err;

	if (!elf || !(elf->name = strdup(name)))
		return &error_no_memory;
	err = map_file(elf, owned);
	if (!err)
		err = read_header(elf);
	if (!err)
		err = read_segments(elf);
	if (err)
		return elf_file_check(elf, err);
	read_note_section(elf);
	elf->stripped = !elf_file_section(elf, ".symtab", &section) &&
			!elf_file_section(elf, ".debug_info", &section) &&
			!elf_file_section(elf, ".zdebug_info", &section);
	err = elf_file_check(elf, NULL);
	if (!err)
		*ret = take_ptr(elf);
	return err;
}

struct error *elf_file_check(const struct elf_file *elf, struct error *err)
{
	return mapped_file_check(elf->mapping, err);
}

void elf_file_probe(const struct elf_file *elf)
{
	mapped_file_probe(elf->mapping);
}

void elf_file_close(struct elf_file *elf)
{
	if (!elf)
		return;
	if (elf->elf)
		elf_end(elf->elf);
	mapped_file_close(elf->mapping);
	map_release(&elf->objects);
	free(elf->segments);
	free(elf->name);
	free(elf);
}

const char *elf_file_name(const struct elf_file *elf)
{
	return elf->name;
}

enum machine elf_file_machine(const struct elf_file *elf)
{
	return elf->machine;
}

bool elf_file_is_pie(const struct elf_file *elf)
{
	return elf->pie;
}

bool elf_file_is_dynamic(const struct elf_file *elf)
{
	return elf->dynamic;
}

bool elf_file_is_stripped(const struct elf_file *elf)
{
	return elf->stripped;
}

const char *elf_file_build_id(const struct elf_file *elf)
{
	return *elf->ids.gnu ? elf->ids.gnu : elf->ids.go;
}

const char *elf_file_go_build_id(const struct elf_file *elf)
{
	return elf->ids.go;
}

bool elf_file_has_build_id(const struct elf_file *elf, const char *build_id)
{
	return *build_id && (!strcmp(elf->ids.gnu, build_id) || !strcmp(elf->ids.go, build_id));
}

bool elf_file_same_build(const struct elf_file *a, const struct elf_file *b)
{
	if (*a->ids.gnu && *b->ids.gnu)
		return !strcmp(a->ids.gnu, b->ids.gnu);
	return *a->ids.go && !strcmp(a->ids.go, b->ids.go);
}

uint64_t elf_file_entry(const struct elf_file *elf)
{
	GElf_Ehdr header;

	return gelf_getehdr(elf->elf, &header) ? header.e_entry : 0;
}

size_t elf_file_segments(const struct elf_file *elf, const struct elf_segment **ret)
{
	*ret = elf->segments;
	return elf->segment_count;
}

bool elf_file_bias(const struct elf_file *elf, uint64_t start, uint64_t offset, uint64_t *ret)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *s = &elf->segments[i];
		bool is_debug = !s->file_size;
		uint64_t from = is_debug ? s->address : s->offset;
		uint64_t size = is_debug ? s->memory_size : s->file_size;

		/* Pages are mapped whole. */
		if (!s->executable || offset < from - from % PAGE || offset >= from + size)
			continue;
		*ret = start - (s->address - from + offset);
		return true;
	}
	return false;
}

bool elf_file_section(const struct elf_file *elf, const char *name, struct elf_section *ret)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;

	if (elf_getshdrstrndx(elf->elf, &names))
		return false;
	while ((scn = elf_nextscn(elf->elf, scn))) {
		const char *found = gelf_getshdr(scn, &sh)
					    ? elf_bounds_string(elf->elf, names, sh.sh_name)
					    : NULL;
		bool has_bytes;

		if (!found || strcmp(found, name))
			continue;
		has_bytes = sh.sh_type != SHT_NOBITS && sh.sh_offset <= elf->size &&
			    sh.sh_size <= elf->size - sh.sh_offset;
		*ret = (struct elf_section){
			.name = found,
			.address = sh.sh_addr,
			.size = sh.sh_size,
			.bytes = has_bytes ? elf->bytes + sh.sh_offset : NULL,
		};
		return true;
	}
	return false;
}

const uint8_t *elf_file_rest(const struct elf_file *elf, uint64_t address, size_t *ret_size)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *s = &elf->segments[i];

		if (address < s->address || address - s->address >= s->file_size)
			continue;
		*ret_size = s->file_size - (address - s->address);
		return elf->bytes + s->offset + (address - s->address);
	}
	*ret_size = 0;
	return NULL;
}

const uint8_t *elf_file_bytes(const struct elf_file *elf, uint64_t address, size_t size)
{
	size_t rest;
	const uint8_t *bytes = elf_file_rest(elf, address, &rest);

	return rest >= size ? bytes : NULL;
}

const uint8_t *elf_file_whole(const struct elf_file *elf, size_t *ret_size)
{
	*ret_size = elf->size;
	return elf->bytes;
}

/* Calls `visit` with each symbol of the file until it is false. */
static void each_symbol(const struct elf_file *elf,
			bool (*visit)(void *arg, const char *name, const GElf_Sym *sym), void *arg)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	GElf_Sym sym;

	while ((scn = elf_nextscn(elf->elf, scn))) {
		Elf_Data *data;

		if (!gelf_getshdr(scn, &sh) ||
		    (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM))
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 1; data && gelf_getsym(data, i, &sym); i++) {
			const char *name =
				sym.st_shndx == SHN_UNDEF
					? NULL
					: elf_bounds_string(elf->elf, sh.sh_link, sym.st_name);

			if (name && !visit(arg, name, &sym))
				return;
		}
	}
}

static bool remember_object(void *arg, const char *name, const GElf_Sym *sym)
{
	struct elf_file *elf = arg;
	uint64_t *value;

	if (GELF_ST_TYPE(sym->st_info) != STT_OBJECT)
		return true;
	value = map_at(&elf->objects, hash_bytes(name, strlen(name)) >> 1);
	if (value && !*value)
		*value = sym->st_value;
	return value != NULL;
}

struct search {
	const char *name;
	uint64_t value;
};

static bool find_symbol(void *arg, const char *name, const GElf_Sym *sym)
{
	struct search *search = arg;

	if (strcmp(name, search->name))
		return true;
	search->value = sym->st_value;
	return false;
}

/* Data symbols are asked for many times and are few beside the functions: they have an index. */
uint64_t elf_file_symbol(const struct elf_file *elf, const char *name)
{
	struct elf_file *cache = (struct elf_file *)elf;
	struct search search = {name, 0};
	const uint64_t *value;

	if (!elf->objects_read)
		each_symbol(elf, remember_object, cache);
	cache->objects_read = true;
	value = map_find(&elf->objects, hash_bytes(name, strlen(name)) >> 1);
	if (value)
		return *value;
	each_symbol(elf, find_symbol, &search);
	return search.value;
}

static bool is_relative(const struct elf_file *elf, const Elf64_Rela *rela)
{
	return ELF64_R_TYPE(rela->r_info) ==
	       (elf->machine == MACHINE_AMD64 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE);
}

/* The relocation table that begins or goes on behind *scn; NULL at the end. */
static const Elf64_Rela *next_relocations(const struct elf_file *elf, Elf_Scn **scn, size_t *ret)
{
	GElf_Shdr sh;

	while ((*scn = elf_nextscn(elf->elf, *scn))) {
		if (!gelf_getshdr(*scn, &sh) || sh.sh_type != SHT_RELA ||
		    !(sh.sh_flags & SHF_ALLOC) || sh.sh_offset > elf->size ||
		    sh.sh_size > elf->size - sh.sh_offset || sh.sh_offset % _Alignof(Elf64_Rela))
			continue;
		*ret = sh.sh_size / sizeof(Elf64_Rela);
		return (const Elf64_Rela *)(elf->bytes + sh.sh_offset);
	}
	return NULL;
}

bool elf_file_each_relocation(const struct elf_file *elf,
			      bool (*visit)(void *arg, uint64_t place, uint64_t address), void *arg)
{
	const Elf64_Rela *rela;
	Elf_Scn *scn = NULL;
	size_t count;

	while ((rela = next_relocations(elf, &scn, &count)))
		for (size_t i = 0; i < count; i++)
			if (is_relative(elf, &rela[i]) &&
			    visit(arg, rela[i].r_offset, rela[i].r_addend))
				return true;
	return false;
}

void elf_file_relocate(const struct elf_file *elf, uint64_t address, void *buffer, size_t size,
		       uint64_t bias)
{
	const Elf64_Rela *rela;
	Elf_Scn *scn = NULL;
	size_t count;

	while ((rela = next_relocations(elf, &scn, &count))) {
		for (size_t i = 0; i < count; i++) {
			uint64_t value = rela[i].r_addend + bias, at = rela[i].r_offset - address;

			if (at < size && size - at >= sizeof(value) && is_relative(elf, &rela[i]))
				memcpy((char *)buffer + at, &value, sizeof(value));
		}
	}
}
