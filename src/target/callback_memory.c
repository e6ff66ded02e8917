#include "target/callback_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "target/ops.h"

struct callback_target {
	struct target base;
	struct target_callbacks callbacks;
	struct target_maps maps;
};

static struct error *callback_read(struct target *t, const struct target_range *ranges,
				   size_t count, void *packed, size_t *ret_done)
{
	const struct target_callbacks *callbacks = &((struct callback_target *)t)->callbacks;
	char *out = packed;
	size_t i;

	for (i = 0; i < count; i++) {
		const struct target_range *r = &ranges[i];

		if (r->size &&
		    callbacks->read(callbacks->arg, r->address, packed ? out : r->buffer, r->size))
			break;
		out += packed ? r->size : 0;
	}
	*ret_done = i;
	return NULL;
}

static struct error *callback_check(struct target *t)
{
	return NULL;
}

static struct error *append_map(struct target_maps *maps, const struct target_map *map)
{
	struct target_map copy = *map;

	copy.path = strdup(map->path ? map->path : "");
	if (!copy.path || !array_reserve(&maps->items, &maps->capacity, maps->count + 1)) {
		free(copy.path);
		return &error_no_memory;
	}
	maps->items[maps->count++] = copy;
	return NULL;
}

static struct error *callback_maps(struct target *t, struct target_maps *ret)
{
	const struct target_maps *maps = &((struct callback_target *)t)->maps;
	struct error *err = NULL;

	*ret = (struct target_maps){0};
	for (size_t i = 0; !err && i < maps->count; i++)
		err = append_map(ret, &maps->items[i]);
	if (err)
		target_maps_release(ret);
	return err;
}

static struct error *callback_threads(struct target *t, struct target_thread **ret,
				      size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	return NULL;
}

static struct error *callback_open_exe(struct target *t, int *ret_fd)
{
	*ret_fd = regular_file_open(t->exe_name);
	return *ret_fd < 0 ? error_errno(ERROR_FAILED, errno, "cannot open %s", t->exe_name) : NULL;
}

static struct error *callback_entry(struct target *t, uint64_t *ret)
{
	*ret = ((struct callback_target *)t)->callbacks.entry;
	return NULL;
}

static void callback_close(struct target *t)
{
	target_maps_release(&((struct callback_target *)t)->maps);
	free(t->exe_name);
	free(t);
}

static const struct target_ops callback_ops = {
	.read = callback_read,
	.check = callback_check,
	.maps = callback_maps,
	.threads = callback_threads,
	.open_exe = callback_open_exe,
	.entry = callback_entry,
	.close = callback_close,
};

struct error *target_open_callback(const struct target_callbacks *callbacks, struct target **ret)
{
	_cleanup_free_ struct callback_target *target = calloc(1, sizeof(*target));

	if (!target)
		return &error_no_memory;
	target->callbacks = *callbacks;
	target->base.ops = &callback_ops;
	target->base.exe_name = strdup(callbacks->exe);
	if (!target->base.exe_name)
		return &error_no_memory;
	target->callbacks.exe = target->base.exe_name;
	*ret = &take_ptr(target)->base;
	return NULL;
}

struct error *target_callback_map(struct target *t, const struct target_map *map)
{
	return append_map(&((struct callback_target *)t)->maps, map);
}
