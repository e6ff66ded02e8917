#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static struct error *cannot_create(const char *path, int err)
{
	if (err == ENOENT)
		return error_format(ERROR_FAILED,
				    "cannot write %s: its folder does not exist; create it first",
				    path);
	return error_errno(ERROR_FAILED, err, "cannot write %s", path);
}

/* A device or a pipe is written in place: there is nothing to rename over. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static bool make_temporary_name(struct outfile *out)
{
	if (asprintf(&out->temporary, "%s.XXXXXX", out->path) >= 0)
		return true;
	out->temporary = NULL;
	return false;
}

/* A file without a name, in the folder in which it is to have one; -1 where there is no such thing.
 */
static int open_nameless(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);

	return copy ? open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
}

static int open_named(struct outfile *out)
{
	mode_t mask;
	int fd;

	if (!make_temporary_name(out))
		return -1;
	fd = mkostemp(out->temporary, O_CLOEXEC);
	if (fd < 0) {
		free(take_ptr(out->temporary));
		return -1;
	}
	mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	return fd;
}

static struct error *is_folder(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return error_format(ERROR_FAILED, "cannot write %s: it is a folder; name a file",
				    path);
	return NULL;
}

static struct error *open_beside(struct outfile *out)
{
	int fd = open_nameless(out->path);

	out->nameless = fd >= 0;
	if (fd < 0)
		fd = open_named(out);
	if (fd < 0)
		return cannot_create(out->path, errno);
	out->stream = fdopen(fd, "w");
	return out->stream ? NULL : &error_no_memory;
}

static struct error *open_with(const char *path, struct error *(*open_file)(struct outfile *),
			       struct outfile *ret)
{
	_cleanup_outfile_ struct outfile out = {0};
	struct error *err = NULL;

	out.path = strdup(path);
	if (!out.path)
		return &error_no_memory;
	if (!strcmp(path, "-")) {
		out.stream = stdout;
	} else if (is_special(path)) {
		out.stream = fopen(path, "we");
		err = out.stream ? NULL : cannot_create(path, errno);
	} else {
		err = is_folder(path);
		if (!err)
			err = open_file(&out);
	}
	if (err)
		return err;
	*ret = out;
	out = (struct outfile){0};
	return NULL;
}

struct error *outfile_open(const char *path, struct outfile *ret)
{
	return open_with(path, open_beside, ret);
}

static struct error *open_partial(struct outfile *out)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "%s.partial", out->path) < 0) {
		name = NULL;
		return &error_no_memory;
	}
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return cannot_create(out->path, errno);
	if (flock(fd, LOCK_EX | LOCK_NB))
		return error_format(ERROR_FAILED,
				    "cannot write %s: another gospect is writing it; name another "
				    "file",
				    out->path);
	if (ftruncate(fd, 0))
		return cannot_create(out->path, errno);
	out->stream = fdopen(fd, "w");
	if (!out->stream)
		return &error_no_memory;
	fd = -1;
	out->temporary = take_ptr(name);
	return NULL;
}

struct error *outfile_open_growing(const char *path, struct outfile *ret)
{
	return open_with(path, open_partial, ret);
}

static struct error *cannot_write(const struct outfile *out, int err)
{
	const char *name = strcmp(out->path, "-") ? out->path : "standard output";

	if (err == ENOSPC || err == EDQUOT)
		return error_format(ERROR_FAILED,
				    "cannot write %s: the disk is full; free some room or write "
				    "elsewhere",
				    name);
	return error_errno(ERROR_FAILED, err, "cannot write %s", name);
}

/* Gives a nameless file a name beside its own: a link cannot replace a file that is there. */
static struct error *give_name(struct outfile *out)
{
	char from[64];
	int fd;

	if (!make_temporary_name(out))
		return &error_no_memory;
	fd = mkostemp(out->temporary, O_CLOEXEC);
	if (fd < 0) {
		free(take_ptr(out->temporary));
		return cannot_write(out, errno);
	}
	close(fd);
	unlink(out->temporary);
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fileno(out->stream));
	if (linkat(AT_FDCWD, from, AT_FDCWD, out->temporary, AT_SYMLINK_FOLLOW)) {
		free(take_ptr(out->temporary));
		return cannot_write(out, errno);
	}
	return NULL;
}

struct error *outfile_commit(struct outfile *out)
{
	struct error *err = NULL;

	if (ferror(out->stream) | fflush(out->stream))
		err = cannot_write(out, errno);
	if (!err && out->nameless)
		err = give_name(out);
	if (out->stream != stdout && fclose(out->stream) && !err)
		err = cannot_write(out, errno);
	out->stream = NULL;
	if (!err && out->temporary && rename(out->temporary, out->path))
		err = cannot_write(out, errno);
	if (!err)
		free(take_ptr(out->temporary));
	return err;
}

void outfile_abandon(struct outfile *out)
{
	if (out->stream && out->stream != stdout)
		fclose(out->stream);
	if (out->temporary)
		unlink(out->temporary);
	free(out->temporary);
	free(out->path);
	*out = (struct outfile){0};
}
