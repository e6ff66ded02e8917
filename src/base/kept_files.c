#include "base/kept_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

static struct error *must_check remove_oldest(struct kept_files *k)
{
	struct kept_file oldest = k->files[0];
	struct error *err = NULL;
	struct stat st;

	k->count--;
	memmove(k->files, k->files + 1, k->count * sizeof(*k->files));
	if (!lstat(oldest.path, &st) && st.st_dev == oldest.dev && st.st_ino == oldest.ino &&
	    unlink(oldest.path) && errno != ENOENT)
		err = error_errno(ERROR_FAILED, errno, "cannot remove the old file %s",
				  oldest.path);
	free(oldest.path);
	return err;
}

struct error *kept_files_add(struct kept_files *k, const char *path)
{
	struct kept_file file = {0};
	struct stat st;

	if (!k->most)
		return NULL;
	if (lstat(path, &st))
		return error_errno(ERROR_FAILED, errno, "cannot look at %s", path);
	if (!array_reserve(&k->files, &k->capacity, k->count + 1))
		return &error_no_memory;
	file = (struct kept_file){strdup(path), st.st_dev, st.st_ino};
	if (!file.path)
		return &error_no_memory;
	k->files[k->count++] = file;
	return k->count > k->most ? remove_oldest(k) : NULL;
}

void kept_files_release(struct kept_files *k)
{
	for (size_t i = 0; i < k->count; i++)
		free(k->files[i].path);
	free(k->files);
	*k = (struct kept_files){0};
}
