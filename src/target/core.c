/*
 * A core file as a target: the memory of a process when it died or was dumped. The kernel and gcore
 * leave out unchanged pages of files, above all the program's code; the caller supplies them from
 * the program's file.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "base/regular_file.h"
#include "target/core.h"

/* The last segment that begins at or before the address. */
static const struct core_segment *segment_at(const struct core *core, uint64_t address)
{
	size_t lo = 0, hi = core->segment_count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (core->segments[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &core->segments[lo - 1] : NULL;
}

static size_t read_segment(const struct core *core, uint64_t address, void *buffer, size_t size)
{
	const struct core_segment *s = segment_at(core, address);
	uint64_t at = s ? address - s->address : 0;
	ssize_t n;

	if (!s || at >= s->size)
		return 0;
	n = pread(core->fd, buffer, size < s->size - at ? size : s->size - at, s->offset + at);
	return n > 0 ? n : 0;
}

static size_t read_supplied(const struct core *core, uint64_t address, void *buffer, size_t size)
{
	for (size_t i = 0; i < core->supplied_count; i++) {
		const struct target_range *r = &core->supplied[i];
		uint64_t at = address - r->address;
		size_t n;

		if (address < r->address || at >= r->size)
			continue;
		n = size < r->size - at ? size : r->size - at;
		memcpy(buffer, (const char *)r->buffer + at, n);
		return n;
	}
	return 0;
}

/* A range may span several adjacent segments. */
static bool read_range(const struct core *core, uint64_t address, char *buffer, size_t size)
{
	while (size) {
		size_t n = read_segment(core, address, buffer, size);

		if (!n)
			n = read_supplied(core, address, buffer, size);
		if (!n)
			return false;
		address += n;
		buffer += n;
		size -= n;
	}
	return true;
}

static struct error *core_read(struct target *t, const struct target_range *ranges, size_t count,
			       void *packed, size_t *ret_done)
{
	const struct core *core = (struct core *)t;
	char *out = packed;
	size_t i;

	for (i = 0; i < count; i++) {
		if (!read_range(core, ranges[i].address, packed ? out : ranges[i].buffer,
				ranges[i].size))
			break;
		if (packed)
			out += ranges[i].size;
	}
	*ret_done = i;
	return NULL;
}

static struct error *core_check(struct target *t)
{
	return NULL;
}

static const struct core_mapped *mapped_at(const struct core *core, uint64_t address)
{
	size_t lo = 0, hi = core->mapped_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (core->mapped[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && address < core->mapped[lo - 1].end ? &core->mapped[lo - 1] : NULL;
}

static struct error *core_maps(struct target *t, struct target_maps *ret)
{
	const struct core *core = (struct core *)t;
	_cleanup_maps_ struct target_maps maps = {0};

	if (!array_reserve(&maps.items, &maps.capacity, core->segment_count))
		return &error_no_memory;
	for (size_t i = 0; i < core->segment_count; i++) {
		const struct core_segment *s = &core->segments[i];
		const struct core_mapped *m = mapped_at(core, s->address);
		struct target_map *map = &maps.items[i];

		*map = (struct target_map){
			.start = s->address,
			.end = s->address + s->memory_size,
			.offset = m ? m->offset + (s->address - m->start) : 0,
			.readable = s->flags & PF_R,
			.writable = s->flags & PF_W,
			.executable = s->flags & PF_X,
			.path = strdup(m ? m->path : ""),
		};
		if (!map->path)
			return &error_no_memory;
		maps.count++;
	}
	*ret = maps;
	maps = (struct target_maps){0};
	return NULL;
}

static struct error *core_threads(struct target *t, struct target_thread **ret, size_t *ret_count)
{
	const struct core *core = (struct core *)t;
	struct target_thread *threads = calloc(core->thread_count + 1, sizeof(*threads));

	if (!threads)
		return &error_no_memory;
	for (size_t i = 0; i < core->thread_count; i++)
		threads[i] = (struct target_thread){core->threads[i].id, core->threads[i].id};
	*ret = threads;
	*ret_count = core->thread_count;
	return NULL;
}

static struct error *core_open_exe(struct target *t, int *ret_fd)
{
	const struct core *core = (struct core *)t;
	int fd;

	if (!*t->exe_name)
		return error_format(
			ERROR_FAILED,
			"%s does not name its program (its notes are missing); name the program "
			"with --exe FILE",
			core->path);
	fd = regular_file_open(t->exe_name);
	if (fd < 0 && core->exe)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", core->exe);
	if (fd < 0)
		return error_errno(ERROR_FAILED, errno,
				   "cannot find the program of %s: %s; name it with --exe FILE",
				   core->path, t->exe_name);
	*ret_fd = fd;
	return NULL;
}

static struct error *core_entry(struct target *t, uint64_t *ret)
{
	const struct core *core = (struct core *)t;

	if (!core->entry)
		return error_format(
			ERROR_CORRUPT,
			"%s has no auxiliary vector (auxv): it is truncated or incomplete",
			core->path);
	*ret = core->entry;
	return NULL;
}

static void core_close(struct target *t)
{
	struct core *core = (struct core *)t;

	if (core->fd >= 0)
		close(core->fd);
	free(core->base.exe_name);
	free(core->path);
	free(core->exe);
	free(core->segments);
	free(core->threads);
	free(core->mapped);
	free(core->notes);
	free(core->supplied);
	free(core);
}

static bool core_registers(const struct target *t, pid_t thread, struct target_registers *ret)
{
	const struct core *core = (const struct core *)t;

	for (size_t i = 0; i < core->thread_count; i++) {
		if (core->threads[i].id == thread) {
			*ret = core->threads[i].registers;
			return true;
		}
	}
	return false;
}

static const struct target_ops core_ops = {
	.registers = core_registers,
	.read = core_read,
	.check = core_check,
	.maps = core_maps,
	.threads = core_threads,
	.open_exe = core_open_exe,
	.entry = core_entry,
	.close = core_close,
};

/* The name that the kernel was given when it started the program. */
static char *read_exec_name(const struct core *core)
{
	char name[PATH_MAX];
	size_t n = 0;

	while (n < sizeof(name) - 1 && read_range(core, core->exec_name + n, &name[n], 1) &&
	       name[n])
		n++;
	name[n] = '\0';
	return strdup(name);
}

/* The file that is mapped at the program's start; a deleted file has this suffix. */
static char *program_name(const struct core *core)
{
	static const char deleted[] = " (deleted)";
	const struct core_mapped *m = mapped_at(core, core->entry);
	size_t n = m ? strlen(m->path) : 0;

	if (core->exe)
		return strdup(core->exe);
	if (!n)
		return read_exec_name(core);
	if (n > strlen(deleted) && !strcmp(m->path + n - strlen(deleted), deleted))
		n -= strlen(deleted);
	return strndup(m->path, n);
}

static struct error *open_file(struct core *core)
{
	bool cut;
	struct stat st;
	struct error *err;
	int fd, packed = door_open(core->path, 0);

	if (packed < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", core->path);
	core->fd = packed;
	if (fstat(packed, &st))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", core->path);
	if (!S_ISREG(st.st_mode))
		return error_format(ERROR_FAILED, "%s is not a regular file", core->path);
	err = core_unpack(packed, core->path, &fd, &cut);
	if (err)
		return err;
	if (fd != packed)
		close(packed);
	core->fd = fd;
	core->info.truncated = cut;
	if (fstat(fd, &st))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", core->path);
	core->size = st.st_size;
	return core_read_file(core);
}

struct error *target_open_core(const char *path, const char *exe, struct target **ret)
{
	struct core *core = calloc(1, sizeof(*core));
	_cleanup_target_ struct target *t = NULL;
	struct error *err;

	if (!core)
		return &error_no_memory;
	t = &core->base;
	core->base.ops = &core_ops;
	core->fd = -1;
	core->path = strdup(path);
	core->exe = exe ? strdup(exe) : NULL;
	if (!core->path || (exe && !core->exe))
		return &error_no_memory;
	err = open_file(core);
	if (err)
		return err;
	core->info.path = core->path;
	core->info.command = core->command;
	core->info.threads = core->thread_count;
	core->base.exe_name = program_name(core);
	if (!core->base.exe_name)
		return &error_no_memory;
	*ret = take_ptr(t);
	return NULL;
}

static struct core *core_of(const struct target *t)
{
	return t->ops == &core_ops ? (struct core *)t : NULL;
}

const struct target_core *target_core(const struct target *t)
{
	const struct core *core = core_of(t);

	return core ? &core->info : NULL;
}

uint64_t target_program_start(const struct target *t)
{
	const struct core *core = core_of(t);
	const struct core_mapped *m = core ? mapped_at(core, core->entry) : NULL;

	for (size_t i = 0; m && i < core->mapped_count; i++)
		if (!core->mapped[i].offset && !strcmp(core->mapped[i].path, m->path))
			return core->mapped[i].start;
	return 0;
}

struct error *target_supply(struct target *t, const struct target_range *range)
{
	struct core *core = core_of(t);

	if (!core)
		return NULL;
	if (!array_reserve(&core->supplied, &core->supplied_capacity, core->supplied_count + 1))
		return &error_no_memory;
	core->supplied[core->supplied_count++] = *range;
	return NULL;
}
