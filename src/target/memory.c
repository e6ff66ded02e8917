/* Bytes in memory as a target, which unit tests read instead of a process. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/ops.h"

struct memory_target {
	struct target base;
	struct target_range *segments;
	size_t count;
};

static const struct target_range *segment_of(const struct memory_target *m,
					     const struct target_range *range)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct target_range *s = &m->segments[i];

		if (range->address >= s->address && range->size <= s->size &&
		    range->address - s->address <= s->size - range->size)
			return s;
	}
	return NULL;
}

static struct error *memory_read(struct target *t, const struct target_range *ranges, size_t count,
				 void *packed, size_t *ret_done)
{
	struct memory_target *m = (struct memory_target *)t;
	char *out = packed;
	size_t i;

	for (i = 0; i < count; i++) {
		const struct target_range *s = segment_of(m, &ranges[i]);

		if (!ranges[i].size)
			continue;
		if (!s)
			break;
		memcpy(packed ? out : ranges[i].buffer,
		       (char *)s->buffer + (ranges[i].address - s->address), ranges[i].size);
		if (packed)
			out += ranges[i].size;
	}
	*ret_done = i;
	return NULL;
}

static struct error *memory_check(struct target *t)
{
	return NULL;
}

static struct error *memory_maps(struct target *t, struct target_maps *ret)
{
	*ret = (struct target_maps){0};
	return NULL;
}

static struct error *memory_threads(struct target *t, struct target_thread **ret, size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	return NULL;
}

static struct error *memory_open_exe(struct target *t, int *ret_fd)
{
	return error_format(ERROR_FAILED, "memory given as bytes has no program file");
}

static struct error *memory_entry(struct target *t, uint64_t *ret)
{
	return error_format(ERROR_FAILED, "memory given as bytes has no entry point");
}

static void memory_close(struct target *t)
{
	struct memory_target *m = (struct memory_target *)t;

	free(m->segments);
	free(m);
}

static const struct target_ops memory_ops = {
	.read = memory_read,
	.check = memory_check,
	.maps = memory_maps,
	.threads = memory_threads,
	.open_exe = memory_open_exe,
	.entry = memory_entry,
	.close = memory_close,
};

struct error *target_open_memory(const struct target_range *segments, size_t count,
				 struct target **ret)
{
	_cleanup_free_ struct memory_target *m = calloc(1, sizeof(*m));

	if (!m)
		return &error_no_memory;
	m->segments = calloc(count ? count : 1, sizeof(*m->segments));
	if (!m->segments)
		return &error_no_memory;
	memcpy(m->segments, segments, count * sizeof(*segments));
	m->count = count;
	m->base.ops = &memory_ops;
	m->base.exe_name = "memory";
	*ret = &take_ptr(m)->base;
	return NULL;
}
