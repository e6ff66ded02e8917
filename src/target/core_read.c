/* Reads the ELF header, the program headers and the notes. libelf is not used, because it refuses
 * truncated files. */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "target/core.h"

/* The kernel gives 4 MB to NT_FILE and 3 KB to a thread. */
#define MAX_NOTES (256u << 20)
#define MAX_SEGMENTS (1u << 24)
/* Program headers read at once. */
#define SOME_HEADERS 256

static bool read_at(const struct core *core, uint64_t offset, void *buffer, size_t size)
{
	ssize_t n;

	if (offset > core->size || size > core->size - offset)
		return false;
	n = pread(core->fd, buffer, size, offset);
	return n >= 0 && (size_t)n == size;
}

static struct error *not_a_core(const struct core *core, const uint8_t *start)
{
	static const struct {
		const char magic[7];
		const char *name;
	} packers[] = {{"\x1f\x8b", "gzip"},
		       {"\xfd"
			"7zXZ",
			"xz"},
		       {"\x04\x22\x4d\x18", "lz4"},
		       {"BZh", "bzip2"}};

	for (size_t i = 0; i < ARRAY_SIZE(packers); i++)
		if (!memcmp(start, packers[i].magic, strlen(packers[i].magic)))
			return error_format(
				ERROR_FAILED,
				"%s is compressed with %s; decompress it first (gospect "
				"decompresses zstd only)",
				core->path, packers[i].name);
	return error_format(ERROR_FAILED, "%s is not a core file", core->path);
}

static struct error *read_header(struct core *core, Elf64_Ehdr *h)
{
	memset(h, 0, sizeof(*h));
	if (!core->size)
		return error_format(
			ERROR_FAILED,
			"%s is empty: the kernel did not write the core file (ulimit -c, disk "
			"full)",
			core->path);
	if (!read_at(core, 0, h, core->size < sizeof(*h) ? core->size : sizeof(*h)) ||
	    memcmp(h->e_ident, ELFMAG, SELFMAG))
		return not_a_core(core, h->e_ident);
	if (core->size < sizeof(*h))
		return error_format(ERROR_CORRUPT, "%s is truncated within its ELF header",
				    core->path);
	if (h->e_type == ET_EXEC || h->e_type == ET_DYN)
		return error_format(
			ERROR_FAILED,
			"%s is a program, not a core file; use --core for the core file and --exe "
			"for the program",
			core->path);
	if (h->e_type != ET_CORE)
		return not_a_core(core, h->e_ident);
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    (h->e_machine != EM_X86_64 && h->e_machine != EM_AARCH64))
		return error_format(
			ERROR_UNSUPPORTED,
			"%s comes from another architecture (ELF machine %d); gospect supports "
			"amd64 and arm64",
			core->path, h->e_machine);
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return error_format(ERROR_CORRUPT,
				    "%s is corrupt: it has program headers of %d bytes", core->path,
				    h->e_phentsize);
	core->info.machine = h->e_machine;
	return NULL;
}

/*
 * How many program headers there are. From 65535 on the number is in the first section header,
 * which the kernel writes at the file's end; when that is cut off: up to the notes, which the
 * kernel writes right behind them.
 */
static uint64_t header_count(const struct core *core, const Elf64_Ehdr *h)
{
	Elf64_Shdr section;
	Elf64_Phdr first;

	if (h->e_phnum != PN_XNUM)
		return h->e_phnum;
	if (h->e_shoff && read_at(core, h->e_shoff, &section, sizeof(section)))
		return section.sh_info;
	if (!read_at(core, h->e_phoff, &first, sizeof(first)) || first.p_type != PT_NOTE ||
	    first.p_offset < h->e_phoff)
		return 0;
	return (first.p_offset - h->e_phoff) / sizeof(first);
}

static struct error *add_segment(struct core *core, const Elf64_Phdr *h)
{
	uint64_t end, rest = h->p_offset < core->size ? core->size - h->p_offset : 0;

	if (__builtin_add_overflow(h->p_offset, h->p_filesz, &end) ||
	    h->p_vaddr + h->p_memsz < h->p_vaddr || h->p_filesz > h->p_memsz)
		return NULL;
	if (!array_reserve(&core->segments, &core->segment_capacity, core->segment_count + 1))
		return &error_no_memory;
	core->segments[core->segment_count++] = (struct core_segment){
		.address = h->p_vaddr,
		.memory_size = h->p_memsz,
		.offset = h->p_offset,
		.size = h->p_filesz < rest ? h->p_filesz : rest,
		.flags = h->p_flags,
	};
	if (h->p_filesz && end > core->info.whole_size)
		core->info.whole_size = end;
	return NULL;
}

static struct error *read_note_segment(struct core *core, const Elf64_Phdr *h)
{
	uint64_t rest = h->p_offset < core->size ? core->size - h->p_offset : 0;
	uint64_t size = h->p_filesz < rest ? h->p_filesz : rest;

	if (core->notes || !size)
		return NULL;
	if (size > MAX_NOTES)
		return error_format(ERROR_CORRUPT, "%s is corrupt: it claims %lu MB of notes",
				    core->path, size >> 20);
	core->notes = malloc(size);
	if (!core->notes)
		return &error_no_memory;
	if (!read_at(core, h->p_offset, core->notes, size))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", core->path);
	return core_read_notes(core, core->notes, size);
}

static struct error *take_headers(struct core *core, const Elf64_Phdr *headers, size_t count)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		if (headers[i].p_type == PT_LOAD)
			err = add_segment(core, &headers[i]);
		else if (headers[i].p_type == PT_NOTE)
			err = read_note_segment(core, &headers[i]);
	}
	return err;
}

static struct error *read_headers(struct core *core, const Elf64_Ehdr *h)
{
	uint64_t count = header_count(core, h);
	Elf64_Phdr headers[SOME_HEADERS];
	struct error *err = NULL;

	if (count > MAX_SEGMENTS)
		return error_format(ERROR_CORRUPT, "%s is corrupt: it claims %lu segments",
				    core->path, count);
	for (uint64_t i = 0; !err && i < count;) {
		size_t n = count - i < SOME_HEADERS ? count - i : SOME_HEADERS;

		if (!read_at(core, h->e_phoff + i * sizeof(*headers), headers,
			     n * sizeof(*headers)))
			return error_format(
				ERROR_CORRUPT,
				"%s is truncated within its program headers (it has %lu bytes), "
				"so nothing can be read from it",
				core->path, core->size);
		err = take_headers(core, headers, n);
		i += n;
	}
	return err;
}

static int compare_segments(const void *a, const void *b)
{
	const struct core_segment *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* False for signals that end no process: gcore stops the process and records the signal that did
 * so. */
static bool ends_process(int number)
{
	switch (number) {
	case SIGSTOP:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGCONT:
	case SIGCHLD:
	case SIGURG:
	case SIGWINCH:
		return false;
	default:
		return number > 0;
	}
}

struct error *core_read_file(struct core *core)
{
	Elf64_Ehdr header;
	struct error *err = read_header(core, &header);

	if (!err)
		err = read_headers(core, &header);
	if (err)
		return err;
	core->info.size = core->size;
	if (core->info.whole_size > core->size)
		core->info.truncated = true;
	/* gcore writes the notes behind the memory: a truncated file may lack them. */
	if (!core->segment_count || (!core->thread_count && !core->info.truncated))
		return error_format(
			ERROR_CORRUPT,
			"%s has no %s: it is truncated, or neither the kernel nor gcore wrote it",
			core->path, core->segment_count ? "threads" : "memory");
	if (!ends_process(core->info.signal))
		core->info.signal = core->info.code = core->info.sender = 0;
	qsort(core->segments, core->segment_count, sizeof(*core->segments), compare_segments);
	return NULL;
}
