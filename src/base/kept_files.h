/* The last files that this process has written: older ones are removed. */
#ifndef BASE_KEPT_FILES_H
#define BASE_KEPT_FILES_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct kept_file {
	char *path;
	dev_t dev;
	ino_t ino;
};

struct kept_files {
	size_t most; /* to keep; 0: all */
	struct kept_file *files;
	size_t count, capacity;
};

/* Takes a file that was just written, and removes the oldest of more than `most`. A name that has
 * another file by now stays. A file that cannot be removed is an error, and is forgotten. */
struct error *kept_files_add(struct kept_files *k, const char *path) must_check;
void kept_files_release(struct kept_files *k);

#endif
