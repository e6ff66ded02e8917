#include "target/memory_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/ops.h"

/* The kernel permits fewer threads on a machine. */
#define MOST_THREADS (1u << 22)

struct memory_snapshot {
	struct target base;
	struct target *live;
	int memory; /* -1: that of `live` */
	struct snapshot_thread *threads;
	size_t count;
};

static struct memory_snapshot *snapshot_of(struct target *t)
{
	return (struct memory_snapshot *)t;
}

/* A read from a copy that has ended gives no bytes. */
static struct error *must_check copy_ended(const struct memory_snapshot *s)
{
	return error_format(ERROR_GONE, "the copy of process %d has ended", s->base.pid);
}

static struct error *snapshot_read(struct target *t, const struct target_range *ranges,
				   size_t count, void *packed, size_t *ret_done)
{
	struct memory_snapshot *s = snapshot_of(t);
	char *to = packed;
	size_t i;

	if (s->memory < 0)
		return s->live->ops->read(s->live, ranges, count, packed, ret_done);
	for (i = 0; i < count; i++) {
		ssize_t n = pread(s->memory, packed ? to : ranges[i].buffer, ranges[i].size,
				  (off_t)ranges[i].address);

		if (!n && ranges[i].size)
			return copy_ended(s);
		if (n < 0 || (size_t)n != ranges[i].size)
			break;
		to += packed ? n : 0;
	}
	*ret_done = i;
	return NULL;
}

static struct error *snapshot_check(struct target *t)
{
	struct memory_snapshot *s = snapshot_of(t);
	uint64_t entry;
	char byte;
	struct error *err = target_entry(s->live, &entry);

	if (err || s->memory < 0)
		return err ? err : target_check(s->live);
	return pread(s->memory, &byte, 1, (off_t)entry) == 1 ? NULL : copy_ended(s);
}

static bool snapshot_has_descriptor(const struct target *t, int fd)
{
	const struct memory_snapshot *s = (const struct memory_snapshot *)t;

	return (fd == s->memory && fd >= 0) || target_has_descriptor(s->live, fd);
}

static struct error *snapshot_maps(struct target *t, struct target_maps *ret)
{
	return target_maps(snapshot_of(t)->live, ret);
}

static struct error *snapshot_threads(struct target *t, struct target_thread **ret,
				      size_t *ret_count)
{
	const struct memory_snapshot *s = snapshot_of(t);
	struct target_thread *threads = calloc(s->count + 1, sizeof(*threads));

	if (!threads)
		return &error_no_memory;
	for (size_t i = 0; i < s->count; i++)
		threads[i] = (struct target_thread){s->threads[i].id, s->threads[i].inner};
	*ret = threads;
	*ret_count = s->count;
	return NULL;
}

static bool snapshot_registers(const struct target *t, pid_t thread, struct target_registers *ret)
{
	const struct memory_snapshot *s = (const struct memory_snapshot *)t;

	for (size_t i = 0; i < s->count; i++) {
		const struct snapshot_thread *from = &s->threads[i];

		if (from->inner != thread)
			continue;
		*ret = (struct target_registers){.pc = from->pc, .sp = from->sp, .fp = from->fp};
		memcpy(ret->general, from->general, sizeof(from->general));
		return true;
	}
	return false;
}

static struct error *snapshot_open_exe(struct target *t, int *ret_fd)
{
	return target_open_exe(snapshot_of(t)->live, ret_fd);
}

static struct error *snapshot_entry(struct target *t, uint64_t *ret)
{
	return target_entry(snapshot_of(t)->live, ret);
}

static void snapshot_close(struct target *t)
{
	struct memory_snapshot *s = snapshot_of(t);

	if (s->memory >= 0)
		close(s->memory);
	free(s->base.exe_name);
	free(s->threads);
	free(s);
}

static const struct target_ops snapshot_ops = {
	.read = snapshot_read,
	.check = snapshot_check,
	.has_descriptor = snapshot_has_descriptor,
	.maps = snapshot_maps,
	.threads = snapshot_threads,
	.registers = snapshot_registers,
	.open_exe = snapshot_open_exe,
	.entry = snapshot_entry,
	.close = snapshot_close,
};

static struct error *must_check read_threads(struct memory_snapshot *s, int file)
{
	struct stat st;
	size_t size;

	if (fstat(file, &st) || st.st_size % sizeof(*s->threads) ||
	    st.st_size / sizeof(*s->threads) > MOST_THREADS)
		return error_format(ERROR_CORRUPT, "internal error: invalid list of registers");
	size = (size_t)st.st_size;
	s->threads = malloc(size + 1);
	if (!s->threads)
		return &error_no_memory;
	if (pread(file, s->threads, size, 0) != (ssize_t)size)
		return error_errno(ERROR_FAILED, errno, "cannot read a file in memory");
	s->count = size / sizeof(*s->threads);
	return NULL;
}

struct error *target_open_memory_snapshot(struct target *live, int memory, int threads,
					  struct target **ret)
{
	_cleanup_close_ int file = threads;
	struct memory_snapshot *s = calloc(1, sizeof(*s));
	struct error *err;

	if (!s) {
		cleanup_close(&memory);
		return &error_no_memory;
	}
	s->base.ops = &snapshot_ops;
	s->base.pid = live->pid;
	s->live = live;
	s->memory = memory;
	s->base.exe_name = strdup(live->exe_name);
	err = s->base.exe_name ? read_threads(s, file) : &error_no_memory;
	if (err) {
		snapshot_close(&s->base);
		return err;
	}
	*ret = &s->base;
	return NULL;
}
