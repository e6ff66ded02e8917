#include "inject/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

static struct error *must_check swapped(void)
{
	return error_format(
		ERROR_DENIED,
		"the target replaced the memory file of the trace by another file; gospect wrote "
		"nothing to it");
}

/* All files in memory lie in one file system of the kernel, which has no directories: so no file
 * with a name is in it. */
static struct error *must_check memory_device(dev_t *ret)
{
	_cleanup_close_ int file = memfd_create("gospect", MFD_CLOEXEC);
	struct stat st;

	if (file < 0 || fstat(file, &st))
		return error_errno(ERROR_FAILED, errno, "cannot create a memory file (memfd)");
	*ret = st.st_dev;
	return NULL;
}

static bool has_name(const char *link, const char *name)
{
	char expected[64], found[64];
	ssize_t n = readlink(link, found, sizeof(found) - 1);

	snprintf(expected, sizeof(expected), "/memfd:%s (deleted)", name);
	if (n <= 0)
		return false;
	found[n] = '\0';
	return !strcmp(found, expected);
}

/* `file` is an O_PATH descriptor of gospect: it always refers to the same file. */
static bool is_new(int file, const char *link, const char *name, uid_t owner, dev_t device)
{
	struct stat st;

	return !fstat(file, &st) && S_ISREG(st.st_mode) && st.st_dev == device && !st.st_nlink &&
	       !st.st_size && st.st_uid == owner && has_name(link, name);
}

/* vm.memfd_noexec, and the flag for it, set F_SEAL_EXEC at once. */
static bool can_be_sealed(int file)
{
	int seals = fcntl(file, F_GET_SEALS);

	return seals >= 0 && !(seals & ~F_SEAL_EXEC);
}

struct error *memfile_adopt(const char *path, const char *name, uid_t owner, int *ret)
{
	_cleanup_close_ int handle = open(path, O_PATH | O_CLOEXEC), file = -1;
	char link[64];
	dev_t device = 0;
	struct error *err = memory_device(&device);

	if (err)
		return err;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
	if (handle < 0 || !is_new(handle, link, name, owner, device))
		return swapped();
	file = open(link, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return error_errno(ERROR_FAILED, errno,
				   "cannot open the target's memory file (memfd)");
	if (!can_be_sealed(file))
		return swapped();
	*ret = file;
	file = -1;
	return NULL;
}

struct error *memfile_resize(int file, size_t size)
{
	if (ftruncate(file, size))
		return error_errno(ERROR_FAILED, errno,
				   "cannot create a memory file (memfd) of %zu bytes", size);
	return NULL;
}

struct error *memfile_seal(int file, size_t size, int also)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | also;
	struct stat st;

	if (fcntl(file, F_ADD_SEALS, seals))
		return error_errno(ERROR_DENIED, errno,
				   "cannot seal the memory shared with the target");
	if (fstat(file, &st) || st.st_size != (off_t)size)
		return error_format(
			ERROR_DENIED,
			"the target changed the size of the memory shared with gospect");
	return NULL;
}

void memfile_read(int file, uint64_t offset, void *ret, size_t size)
{
	uint8_t *to = ret;
	ssize_t n;

	for (; size; to += n, offset += n, size -= n) {
		n = pread(file, to, size, offset);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			break;
	}
	memset(to, 0, size);
}

struct memfile_id memfile_id(int file)
{
	struct stat st;

	if (fstat(file, &st))
		return (struct memfile_id){0};
	return (struct memfile_id){(dev_t)major(st.st_dev) << 32 | minor(st.st_dev), st.st_ino};
}

bool memfile_is(const struct target_map *map, struct memfile_id id)
{
	return map->device == id.device && map->inode == id.inode;
}

struct error *memfile_check_mapped(struct target *t, int file, uint64_t address, uint64_t size,
				   uint64_t offset)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct memfile_id id = memfile_id(file);
	const struct target_map *map;
	struct error *err = target_maps(t, &maps);

	if (err)
		return err;
	map = target_maps_find(&maps, address);
	if (!id.inode || !map || map->start > address || map->end - address < size ||
	    !memfile_is(map, id) || map->offset + (address - map->start) != offset)
		return swapped();
	return NULL;
}
