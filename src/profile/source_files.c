#include "profile/source_files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The most components of a name that are tried. */
#define MOST_PARTS 32

/* The length of the first component of a path. 0: it must not be opened. */
static size_t part_length(const char *path)
{
	size_t length = strcspn(path, "/");
	bool dots = path[0] == '.' && (length == 1 || (length == 2 && path[1] == '.'));

	return dots || length > NAME_MAX ? 0 : length;
}

/* Opens a regular file only, because opening other kinds may have effects. Opens the file that was
 * checked, even if its name has changed hands. */
static int open_regular(int folder, const char *name)
{
	_cleanup_close_ int handle = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[32];
	struct stat st;

	if (handle < 0 || fstat(handle, &st) || !S_ISREG(st.st_mode))
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
	return open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Opens the file of this relative path, one component at a time, so that no link leads
 * elsewhere. */
static int open_below(int folder, const char *path)
{
	_cleanup_close_ int at = openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char part[NAME_MAX + 1];

	while (at >= 0) {
		size_t length = part_length(path);
		int next;

		if (!length)
			return -1;
		memcpy(part, path, length);
		part[length] = '\0';
		if (!path[length])
			return open_regular(at, part);
		next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(at);
		at = next;
		path += length + 1;
	}
	return -1;
}

static int open_longest(int folder, const char *name)
{
	size_t length = strlen(name), parts = 1;
	const char *at = name + length;

	if (length >= PATH_MAX || length < 4 || strcmp(at - 3, ".go"))
		return -1;
	while (at > name && (at[-1] != '/' || parts++ < MOST_PARTS))
		at--;
	for (;;) {
		int fd = *at == '/' ? -1 : open_below(folder, at);

		at = strchr(at, '/');
		if (fd >= 0 || !at)
			return fd;
		at++;
	}
}

static int open_in(struct source_folder *f, const char *name)
{
	if (!f->folder)
		f->folder = open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->folder < 0 ? -1 : open_longest(f->folder, name);
}

void source_folder_close(struct source_folder *f)
{
	if (f->folder > 0)
		close(f->folder);
	f->folder = 0;
}

struct error *source_serve(void *arg, struct door_call *call)
{
	const char *name = (const char *)call->bytes;
	bool is_text = call->size && !name[call->size - 1];
	int fd;

	door_call_drop(call);
	fd = is_text ? open_in(arg, name) : -1;
	call->size = 0;
	call->fd_count = fd >= 0;
	call->fds[0] = fd;
	return NULL;
}

int source_open(struct source_folder *folder, const char *name)
{
	struct door_call call = {.size = strlen(name) + 1};
	struct error *err;

	if (!door_is_brokered())
		return open_in(folder, name);
	if (call.size > sizeof(call.bytes))
		return -1;
	memcpy(call.bytes, name, call.size);
	err = door_call(DOOR_SOURCE, &call);
	if (error_dropped(err) || !call.fd_count)
		return -1;
	return call.fds[0];
}
