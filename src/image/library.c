#include "image/library.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/elf_file.h"
#include "image/version.h"

/* The device is not compared: on overlayfs and btrfs, maps and stat give different ones. */
static bool is_file_of(int fd, const struct target_map *map)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_ino == map->inode;
}

/* Through map_files, which is right also when the file was deleted but needs a capability; else by
 * its name in the target's own mount namespace. */
int library_open_mapped(pid_t pid, const struct target_map *map)
{
	_cleanup_free_ char *path = NULL;
	char link[96];
	int fd;

	snprintf(link, sizeof(link), "/proc/%d/map_files/%lx-%lx", pid, map->start, map->end);
	fd = regular_file_open(link);
	if (fd >= 0 || asprintf(&path, "/proc/%d/root%s", pid, map->path) < 0)
		return fd;
	fd = regular_file_open(path);
	if (fd < 0 || is_file_of(fd, map))
		return fd;
	close(fd);
	return -1;
}

/* The descriptor stays the caller's. */
static bool is_go(int fd, const char *name)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	bool go;

	if (copy < 0 || error_dropped(elf_file_open(copy, name, &elf)))
		return false;
	go = version_is_go(elf);
	return !error_dropped(elf_file_check(elf, NULL)) && go;
}

static bool same_file(const struct target_map *a, const struct target_map *b)
{
	return a->inode == b->inode && a->device == b->device;
}

/* The first mapping of the file that this one is of. */
static const struct target_map *first_of(const struct target_maps *maps,
					 const struct target_map *map)
{
	const struct target_map *first = maps->items;

	while (!same_file(first, map))
		first++;
	return first;
}

/* Each file is checked once, at its first mapping with code. */
static bool is_candidate(const struct target_maps *maps, size_t i)
{
	const struct target_map *map = &maps->items[i];

	if (!map->executable || map->path[0] != '/' || !map->inode)
		return false;
	for (size_t k = i; k-- > 0 && same_file(&maps->items[k], map);)
		if (maps->items[k].executable)
			return false;
	return true;
}

struct error *library_find(struct target *t, int *ret_fd, char **ret_name, uint64_t *ret_start)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err;

	*ret_fd = -1;
	if (!target_pid(t))
		return NULL;
	err = target_maps(t, &maps);
	for (size_t i = 0; !err && i < maps.count; i++) {
		const struct target_map *map = &maps.items[i], *first;
		_cleanup_close_ int fd = -1;

		if (!is_candidate(&maps, i))
			continue;
		fd = library_open_mapped(target_pid(t), map);
		if (fd < 0 || !is_go(fd, map->path))
			continue;
		*ret_name = strdup(map->path);
		if (!*ret_name)
			return &error_no_memory;
		first = first_of(&maps, map);
		*ret_start = first->start - first->offset;
		*ret_fd = fd;
		fd = -1;
		return NULL;
	}
	return err;
}
