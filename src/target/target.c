#include "target/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/ops.h"

bool target_has_descriptor(const struct target *t, int fd)
{
	return t->ops->has_descriptor && t->ops->has_descriptor(t, fd);
}

void target_close(struct target *t)
{
	if (t)
		t->ops->close(t);
}

struct error *target_read_ranges(struct target *t, const struct target_range *ranges, size_t count,
				 size_t *ret_done)
{
	return t->ops->read(t, ranges, count, NULL, ret_done);
}

struct error *target_read_packed(struct target *t, const struct target_range *ranges, size_t count,
				 void *buffer, size_t *ret_done)
{
	return t->ops->read(t, ranges, count, buffer, ret_done);
}

struct error *target_read(struct target *t, uint64_t address, void *buffer, size_t size)
{
	struct target_range range = {address, size, buffer};
	struct error *err;
	size_t done;

	if (!size)
		return NULL;
	err = t->ops->read(t, &range, 1, NULL, &done);
	if (err)
		return err;
	return done == 1 ? NULL : &error_fault;
}

struct error *target_read_u64(struct target *t, uint64_t address, uint64_t *ret)
{
	return target_read(t, address, ret, sizeof(*ret));
}

struct error *target_read_u32(struct target *t, uint64_t address, uint32_t *ret)
{
	return target_read(t, address, ret, sizeof(*ret));
}

struct error *target_read_each(struct target *t, const struct target_range *ranges, size_t count,
			       bool *ret_ok)
{
	for (size_t i = 0; i < count;) {
		size_t n = count - i < TARGET_MAX_RANGES ? count - i : TARGET_MAX_RANGES, done;
		struct error *err = target_read_ranges(t, ranges + i, n, &done);

		if (err)
			return err;
		for (size_t k = 0; k < done; k++)
			ret_ok[i + k] = true;
		i += done;
		if (done < n)
			ret_ok[i++] = false;
	}
	return NULL;
}

bool target_registers(const struct target *t, pid_t thread, struct target_registers *ret)
{
	return t->ops->registers && t->ops->registers(t, thread, ret);
}

bool target_stands_still(const struct target *t)
{
	return t->ops->registers;
}

pid_t target_pid(const struct target *t)
{
	return t->pid;
}

const char *target_exe_name(const struct target *t)
{
	return t->exe_name;
}

struct error *target_check(struct target *t)
{
	return t->ops->check(t);
}

struct error *target_explain(struct target *t, struct error *err)
{
	struct error *gone;

	if (err && (err->code == ERROR_GONE || err->code == ERROR_NO_MEMORY))
		return err;
	gone = target_check(t);
	if (!gone)
		return err;
	error_destroy(err);
	return gone;
}

struct error *target_maps(struct target *t, struct target_maps *ret)
{
	return t->ops->maps(t, ret);
}

struct error *target_threads(struct target *t, struct target_thread **ret, size_t *ret_count)
{
	return t->ops->threads(t, ret, ret_count);
}

struct error *target_open_exe(struct target *t, int *ret_fd)
{
	return t->ops->open_exe(t, ret_fd);
}

struct error *target_entry(struct target *t, uint64_t *ret)
{
	return t->ops->entry(t, ret);
}

void target_maps_release(struct target_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->items[i].path);
	free(maps->items);
	*maps = (struct target_maps){0};
}

const struct target_map *target_maps_find(const struct target_maps *maps, uint64_t address)
{
	size_t lo = 0, hi = maps->count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (maps->items[mid].end <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < maps->count && maps->items[lo].start <= address ? &maps->items[lo] : NULL;
}
