/*
 * Field offsets out of DWARF, without reading all of it.
 *
 * A Go program of 150 MB has 40 MB of .debug_info, compressed. Given the file, libdw unpacks every
 * debug section before the first query. So libdw gets another file, made in memory, that holds
 * .debug_abbrev and a .debug_info that is filled from its start on as far as it is needed: the
 * names are searched in what is there, and where one is found libdw reads the entry.
 *
 * The assumptions (cmd/link/internal/ld/dwarf.go, Go 1.17 to 1.27): names are inline
 * (DW_FORM_string), the first attribute of their entry, behind an abbreviation code of one byte;
 * all types are in one unit, one of those of package runtime, and these come early (units are
 * sorted by address). So when the unit that holds the first of the types is through, what was not
 * found is not there. Constants are in the unit of their own package, which may be any.
 */
#include "image/dwarf_types.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/debug_sections.h"

#define STEP (512u << 10) /* so much is unpacked at a time */
#define AHEAD (64u << 10) /* no structure's entry is longer */
/* Compilers make some 100 KB of abbreviations; libdw reads all of them for each unit that it looks
 * into, and the names lie in few units. */
#define MAX_ABBREVIATIONS (512u << 10)
#define MAX_UNITS_TRIED 16
#define MAX_TRIES 4096
#define MAX_PATH_PARTS 16
#define MAX_TYPEDEFS 16

/* The file for libdw: header, section headers, names, .debug_abbrev, .debug_info. */
struct debug_file {
	uint8_t *bytes;
	uint8_t *info; /* in it */
	size_t info_size;
	size_t ready; /* bytes unpacked so far */
	struct debug_section source;
	z_stream stream;
	bool streaming;
	Elf *elf;
	Dwarf *dwarf;
	const char *name; /* of the program */
	struct debug_units units;
	size_t tried[MAX_UNITS_TRIED]; /* the starts of the units in which an entry was searched */
	size_t tried_count;
	size_t tries;
};

/* An entry that is searched by name. */
struct entry {
	const char *name; /* alternatives, separated by '|' */
	int tag;
	bool found;
	size_t searched; /* so much of .debug_info */
	Dwarf_Die die;
};

static void debug_file_release(struct debug_file *f)
{
	if (f->dwarf)
		dwarf_end(f->dwarf);
	if (f->elf)
		elf_end(f->elf);
	if (f->streaming)
		inflateEnd(&f->stream);
	free(f->bytes);
}

static struct error *corrupt(const struct debug_file *f, const char *what)
{
	return error_format(ERROR_CORRUPT, "the DWARF of %s is corrupt: %s", f->name, what);
}

/* Unpacks .debug_info up to `want`, or to its end. */
static struct error *unpack_to(struct debug_file *f, size_t want)
{
	size_t end = want < f->info_size ? want : f->info_size;

	if (end <= f->ready)
		return NULL;
	if (!f->source.compressed) {
		memcpy(f->info + f->ready, f->source.data + f->ready, end - f->ready);
		f->ready = end;
		return NULL;
	}
	while (f->ready < end) {
		size_t step = end - f->ready, left = f->source.size - f->stream.total_in;

		f->stream.next_in = (Bytef *)f->source.data + f->stream.total_in;
		f->stream.avail_in = left < STEP ? left : STEP;
		f->stream.next_out = f->info + f->ready;
		f->stream.avail_out = step < STEP ? step : STEP;
		step = f->stream.avail_out;
		switch (inflate(&f->stream, Z_NO_FLUSH)) {
		case Z_OK:
		case Z_STREAM_END:
			break;
		default:
			return corrupt(f, "cannot decompress its data");
		}
		if (f->stream.avail_out == step)
			return corrupt(f, "its compressed data is truncated");
		f->ready += step - f->stream.avail_out;
	}
	return NULL;
}

static const char section_names[] = "\0.shstrtab\0.debug_abbrev\0.debug_info";

static void write_headers(const struct debug_file *f, int machine, size_t abbrev_size)
{
	size_t names = sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Shdr);
	size_t abbrev = names + sizeof(section_names);
	Elf64_Ehdr header = {
		.e_ident = ELFMAG "\2\1\1", /* ELFCLASS64, ELFDATA2LSB, EV_CURRENT */
		.e_type = ET_EXEC,
		.e_machine = machine,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 4,
		.e_shstrndx = 1,
	};
	Elf64_Shdr sections[4] = {
		{0},
		{1, SHT_STRTAB, 0, 0, names, sizeof(section_names), 0, 0, 1, 0},
		{11, SHT_PROGBITS, 0, 0, abbrev, abbrev_size, 0, 0, 1, 0},
		{25, SHT_PROGBITS, 0, 0, f->info - f->bytes, f->info_size, 0, 0, 1, 0},
	};

	memcpy(f->bytes, &header, sizeof(header));
	memcpy(f->bytes + sizeof(header), sections, sizeof(sections));
	memcpy(f->bytes + names, section_names, sizeof(section_names));
}

/*
 * Untouched memory costs nothing: calloc() maps a large block. One byte more ends a string that the
 * section truncates, which libdw does not check.
 */
static struct error *build_file(struct debug_file *f, int machine,
				const struct debug_section *abbrev)
{
	size_t start = sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Shdr) + sizeof(section_names);
	size_t info_start = start + abbrev->unpacked_size;

	f->info_size = f->source.unpacked_size;
	f->bytes = calloc(1, info_start + f->info_size + 1);
	if (!f->bytes)
		return &error_no_memory;
	f->info = f->bytes + info_start;
	write_headers(f, machine, abbrev->unpacked_size);
	if (!debug_section_unpack(abbrev, f->bytes + start))
		return corrupt(f, "cannot decompress its abbreviations");
	if (f->source.compressed && inflateInit(&f->stream) != Z_OK)
		return &error_no_memory;
	f->streaming = f->source.compressed;
	if (f->streaming)
		inflateValidate(&f->stream, 0); /* no checksum: only a part is read */
	return unpack_to(f, STEP);
}

static struct error *open_debug_file(struct debug_file *f, Elf *original, bool *ret_has_dwarf)
{
	struct debug_section abbrev = debug_section_find(original, "abbrev");
	GElf_Ehdr header;
	struct error *err;

	f->source = debug_section_find(original, "info");
	*ret_has_dwarf = abbrev.data && f->source.data && abbrev.size && f->source.unpacked_size &&
			 abbrev.unpacked_size <= MAX_ABBREVIATIONS;
	if (!*ret_has_dwarf || !gelf_getehdr(original, &header))
		return NULL;
	err = build_file(f, header.e_machine, &abbrev);
	if (err)
		return err;
	f->elf = elf_memory((char *)f->bytes, f->info - f->bytes + f->info_size);
	f->dwarf = f->elf ? dwarf_begin_elf(f->elf, DWARF_C_READ, NULL) : NULL;
	return f->dwarf ? NULL : corrupt(f, dwarf_errmsg(-1));
}

/* Whether the unit of this entry is among the few that may be looked into. */
static bool may_try(struct debug_file *f, Dwarf_Die *die)
{
	size_t start = dwarf_dieoffset(die) - dwarf_cuoffset(die);

	for (size_t i = 0; i < f->tried_count; i++)
		if (f->tried[i] == start)
			return true;
	if (f->tried_count == MAX_UNITS_TRIED)
		return false;
	f->tried[f->tried_count++] = start;
	return true;
}

/* Whether the name at this place of .debug_info is that of an entry with this tag. */
static bool is_entry(struct debug_file *f, size_t at, int tag, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;

	return at && f->tries++ < MAX_TRIES &&
	       debug_units_are_few(&f->units, f->info, f->ready, at) &&
	       dwarf_offdie(f->dwarf, at - 1, ret) && may_try(f, ret) && dwarf_tag(ret) == tag &&
	       dwarf_attr(ret, DW_AT_name, &attr) &&
	       dwarf_formstring(&attr) == (const char *)f->info + at;
}

/* Searches one name, `n` bytes of it, from `from` on in the decompressed part. */
static bool search_name(struct debug_file *f, struct entry *e, const char *name, size_t n,
			size_t from)
{
	while (from < f->ready) {
		const uint8_t *hit = memmem(f->info + from, f->ready - from, name, n);

		if (!hit)
			return false;
		from = hit - f->info + 1;
		if (from - 1 + n < f->ready && !hit[n] && is_entry(f, from - 1, e->tag, &e->die))
			return true;
	}
	return false;
}

static void search_entry(struct debug_file *f, struct entry *e)
{
	const char *name = e->name;

	while (!e->found && name) {
		const char *end = strchrnul(name, '|');
		size_t n = end - name, overlap = n + 1;

		e->found = search_name(f, e, name, n,
				       e->searched > overlap ? e->searched - overlap : 0);
		name = *end ? end + 1 : NULL;
	}
	e->searched = f->ready;
}

/* The end of the unit that holds this entry. */
static size_t unit_end(const struct debug_file *f, Dwarf_Die *die)
{
	Dwarf_Off next, start = dwarf_dieoffset(die) - dwarf_cuoffset(die);

	return dwarf_next_unit(f->dwarf, start, &next, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
		       ? f->info_size
		       : next;
}

/* Searches all entries, unpacking as little as possible. */
static struct error *search_entries(struct debug_file *f, struct entry *entries, size_t count)
{
	size_t types_end = f->info_size;
	struct error *err = NULL;

	while (!err) {
		bool open = false;

		for (size_t i = 0; i < count; i++) {
			struct entry *e = &entries[i];
			bool is_type = e->tag == DW_TAG_structure_type;

			if (!e->found)
				search_entry(f, e);
			if (e->found && is_type && types_end == f->info_size)
				types_end = unit_end(f, &e->die);
			open |= !e->found && !(is_type && e->searched >= types_end);
		}
		if (!open || f->ready == f->info_size)
			break;
		err = unpack_to(f, f->ready + STEP);
	}
	return err;
}

static bool has_name(Dwarf_Die *die, const char *name, size_t n)
{
	const char *found = dwarf_diename(die);

	return found && !strncmp(found, name, n) && !found[n];
}

/* Goes to the member of a structure; *ret_offset grows by its place in it. */
static bool find_member(Dwarf_Die *type, const char *name, size_t n, Dwarf_Die *ret,
			int64_t *ret_offset)
{
	Dwarf_Attribute attr;
	Dwarf_Word place;

	if (dwarf_tag(type) != DW_TAG_structure_type || dwarf_child(type, ret))
		return false;
	do {
		if (dwarf_tag(ret) != DW_TAG_member || !has_name(ret, name, n))
			continue;
		if (!dwarf_attr(ret, DW_AT_data_member_location, &attr) ||
		    dwarf_formudata(&attr, &place) || place > INT32_MAX)
			return false;
		*ret_offset += place;
		return true;
	} while (!dwarf_siblingof(ret, ret));
	return false;
}

/* The member's type, typedefs (which every named Go type has) followed. */
static bool member_type(struct debug_file *f, Dwarf_Die *member, Dwarf_Die *ret)
{
	Dwarf_Die at = *member;

	for (int i = 0; i < MAX_TYPEDEFS; i++) {
		Dwarf_Attribute attr;

		if (!dwarf_attr(&at, DW_AT_type, &attr) || !dwarf_formref_die(&attr, ret) ||
		    error_dropped(unpack_to(f, dwarf_dieoffset(ret) + AHEAD)))
			return false;
		if (dwarf_tag(ret) != DW_TAG_typedef)
			return true;
		at = *ret;
	}
	return false;
}

/* "sched.sp", from `path` to `end`, in this structure. */
static bool walk_path(struct debug_file *f, Dwarf_Die type, const char *path, const char *end,
		      int64_t *ret)
{
	int64_t offset = 0;

	for (int i = 0; i < MAX_PATH_PARTS; i++) {
		const char *dot = memchr(path, '.', end - path);
		size_t n = (dot ? dot : end) - path;
		Dwarf_Die member;

		if (!find_member(&type, path, n, &member, &offset))
			return false;
		if (!dot) {
			*ret = offset;
			return true;
		}
		if (!member_type(f, &member, &type))
			return false;
		path = dot + 1;
	}
	return false;
}

static bool answer_type(struct debug_file *f, Dwarf_Die *type, const struct dwarf_query *q,
			int64_t *ret)
{
	const char *path = q->path;
	int size = dwarf_bytesize(type);

	if (!*path) {
		*ret = size;
		return size >= 0;
	}
	while (path) {
		const char *end = strchrnul(path, '|');

		if (walk_path(f, *type, path, end, ret))
			return true;
		path = *end ? end + 1 : NULL;
	}
	return false;
}

static bool answer_constant(Dwarf_Die *constant, int64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Sword value;

	if (!dwarf_attr(constant, DW_AT_const_value, &attr) || dwarf_formsdata(&attr, &value))
		return false;
	*ret = value;
	return true;
}

static struct error *answer(struct debug_file *f, struct dwarf_query *q, struct entry *e)
{
	struct error *err;

	q->has_type = e->found;
	if (!e->found)
		return NULL;
	err = unpack_to(f, dwarf_dieoffset(&e->die) + AHEAD);
	if (err)
		return err;
	q->found = q->is_constant ? answer_constant(&e->die, &q->value)
				  : answer_type(f, &e->die, q, &q->value);
	return NULL;
}

/* One entry for each name that is asked for; ret_of[i] is the place of query i's. */
static size_t collect_entries(const struct dwarf_query *queries, size_t count,
			      struct entry *entries, size_t *ret_of)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		size_t k = 0;

		while (k < n && strcmp(entries[k].name, queries[i].type))
			k++;
		if (k == n)
			entries[n++] = (struct entry){
				.name = queries[i].type,
				.tag = queries[i].is_constant ? DW_TAG_constant
							      : DW_TAG_structure_type,
			};
		ret_of[i] = k;
	}
	return n;
}

static struct error *answer_all(struct debug_file *f, struct dwarf_query *queries, size_t count)
{
	_cleanup_free_ struct entry *entries = calloc(count, sizeof(*entries));
	_cleanup_free_ size_t *of = calloc(count, sizeof(*of));
	struct error *err;

	if (!entries || !of)
		return count ? &error_no_memory : NULL;
	err = search_entries(f, entries, collect_entries(queries, count, entries, of));
	for (size_t i = 0; i < count && !err; i++)
		err = answer(f, &queries[i], &entries[of[i]]);
	return err;
}

struct error *dwarf_answer(const struct elf_file *elf, struct dwarf_query *queries, size_t count,
			   bool *ret_has_dwarf)
{
	__attribute__((cleanup(debug_file_release))) struct debug_file f = {
		.name = elf_file_name(elf),
	};
	bool has_dwarf = false;
	struct error *err;
	Elf *original;
	size_t size;
	const uint8_t *whole = elf_file_whole(elf, &size);

	for (size_t i = 0; i < count; i++)
		queries[i].found = queries[i].has_type = false;
	elf_version(EV_CURRENT);
	original = elf_memory((char *)whole, size);
	if (!original)
		return corrupt(&f, elf_errmsg(-1));
	err = open_debug_file(&f, original, &has_dwarf);
	elf_end(original);
	if (!err && has_dwarf)
		err = answer_all(&f, queries, count);
	if (!err)
		*ret_has_dwarf = has_dwarf;
	return err;
}
