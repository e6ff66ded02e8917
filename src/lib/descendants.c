#include "lib/descendants.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "target/proc_status.h"

enum descent { UNKNOWN, DESCENDS, OTHER };

struct descendant {
	pid_t pid, parent;
	enum descent descent;
};

static int by_pid(const void *a, const void *b)
{
	return ((const struct descendant *)a)->pid - ((const struct descendant *)b)->pid;
}

static struct descendant *find(const struct descendants *d, pid_t pid)
{
	const struct descendant key = {.pid = pid};

	return d->count ? bsearch(&key, d->items, d->count, sizeof(key), by_pid) : NULL;
}

static struct error *must_check list_all(struct descendants *d)
{
	_cleanup_closedir_ DIR *folder = process_folder_open();
	pid_t pid;

	if (!folder)
		return error_format(ERROR_FAILED, "cannot read /proc; is it mounted?");
	while ((pid = process_folder_next(folder))) {
		if (!array_reserve(&d->items, &d->capacity, d->count + 1))
			return &error_no_memory;
		d->items[d->count++] = (struct descendant){pid, process_parent(pid), UNKNOWN};
	}
	if (d->count)
		qsort(d->items, d->count, sizeof(*d->items), by_pid);
	return NULL;
}

/* The first process upwards of which it is known; NULL: none. Pids are used again, so the list,
 * which is of several moments, may have a circle. */
static struct descendant *known_above(const struct descendants *d, struct descendant *from)
{
	struct descendant *at = from;

	for (size_t i = 0; at && i < d->count; i++) {
		if (at->descent != UNKNOWN)
			return at;
		at = find(d, at->parent);
	}
	return NULL;
}

static void settle(const struct descendants *d, struct descendant *from)
{
	struct descendant *known = known_above(d, from), *at = from;
	enum descent descent = known ? known->descent : OTHER;

	while (at && at->descent == UNKNOWN) {
		at->descent = descent;
		at = find(d, at->parent);
	}
}

struct error *descendants_find(const int32_t *ancestors, size_t count, struct descendants *ret)
{
	struct error *err;

	*ret = (struct descendants){0};
	err = list_all(ret);
	for (size_t i = 0; !err && i < count; i++) {
		struct descendant *ancestor = find(ret, ancestors[i]);

		if (ancestor)
			ancestor->descent = DESCENDS;
	}
	for (size_t i = 0; !err && i < ret->count; i++)
		settle(ret, &ret->items[i]);
	return err;
}

void descendants_release(struct descendants *d)
{
	free(d->items);
	*d = (struct descendants){0};
}

bool descendants_have(const struct descendants *d, pid_t pid)
{
	const struct descendant *found = find(d, pid);

	return found && found->descent == DESCENDS;
}
