#include "target/lent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "target/ops.h"

struct lent_target {
	struct target base;
	struct target_loan loan;
	struct target_maps maps;
};

static struct error *lent_read(struct target *t, const struct target_range *ranges, size_t count,
			       void *packed, size_t *ret_done)
{
	const struct target_loan *loan = &((struct lent_target *)t)->loan;
	char *out = packed;
	size_t i;

	for (i = 0; i < count; i++) {
		const struct target_range *r = &ranges[i];

		if (r->size && loan->read(loan->arg, r->address, packed ? out : r->buffer, r->size))
			break;
		out += packed ? r->size : 0;
	}
	*ret_done = i;
	return NULL;
}

static struct error *lent_check(struct target *t)
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

static struct error *lent_maps(struct target *t, struct target_maps *ret)
{
	const struct target_maps *maps = &((struct lent_target *)t)->maps;
	struct error *err = NULL;

	*ret = (struct target_maps){0};
	for (size_t i = 0; !err && i < maps->count; i++)
		err = append_map(ret, &maps->items[i]);
	if (err)
		target_maps_release(ret);
	return err;
}

static struct error *lent_threads(struct target *t, struct target_thread **ret, size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	return NULL;
}

static struct error *lent_open_exe(struct target *t, int *ret_fd)
{
	*ret_fd = regular_file_open(t->exe_name);
	return *ret_fd < 0 ? error_errno(ERROR_FAILED, errno, "cannot open %s", t->exe_name) : NULL;
}

static struct error *lent_entry(struct target *t, uint64_t *ret)
{
	*ret = ((struct lent_target *)t)->loan.entry;
	return NULL;
}

static void lent_close(struct target *t)
{
	target_maps_release(&((struct lent_target *)t)->maps);
	free(t->exe_name);
	free(t);
}

static const struct target_ops lent_ops = {
	.read = lent_read,
	.check = lent_check,
	.maps = lent_maps,
	.threads = lent_threads,
	.open_exe = lent_open_exe,
	.entry = lent_entry,
	.close = lent_close,
};

struct error *target_open_lent(const struct target_loan *loan, struct target **ret)
{
	_cleanup_free_ struct lent_target *lent = calloc(1, sizeof(*lent));

	if (!lent)
		return &error_no_memory;
	lent->loan = *loan;
	lent->base.ops = &lent_ops;
	lent->base.exe_name = strdup(loan->exe);
	if (!lent->base.exe_name)
		return &error_no_memory;
	lent->loan.exe = lent->base.exe_name;
	*ret = &take_ptr(lent)->base;
	return NULL;
}

struct error *target_lent_map(struct target *t, const struct target_map *map)
{
	return append_map(&((struct lent_target *)t)->maps, map);
}
