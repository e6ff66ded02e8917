#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static struct error *cannot_create(const char *path, int err)
{
	if (err == ENOENT)
		return error_format(ERROR_FAILED,
				    "cannot write %s: its folder does not exist; "
				    "create it first",
				    path);
	return error_errno(ERROR_FAILED, err, "cannot write %s", path);
}

/* A device or a pipe is written in place: there is nothing to rename over. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static struct error *open_beside(struct outfile *out)
{
	struct stat st;
	mode_t mask;
	int fd;

	if (stat(out->path, &st) == 0 && S_ISDIR(st.st_mode))
		return error_format(ERROR_FAILED, "cannot write %s: it is a folder; name a file",
				    out->path);
	if (asprintf(&out->temporary, "%s.XXXXXX", out->path) < 0) {
		out->temporary = NULL;
		return &error_no_memory;
	}
	fd = mkstemp(out->temporary);
	if (fd < 0) {
		free(take_ptr(out->temporary));
		return cannot_create(out->path, errno);
	}
	mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	out->stream = fdopen(fd, "w");
	return out->stream ? NULL : &error_no_memory;
}

struct error *outfile_open(const char *path, struct outfile *ret)
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
		err = open_beside(&out);
	}
	if (err)
		return err;
	*ret = out;
	out = (struct outfile){0};
	return NULL;
}

static struct error *finish_stream(struct outfile *out)
{
	const char *name = out->stream == stdout ? "standard output" : out->path;
	int failed = ferror(out->stream) | fflush(out->stream), err = errno;

	if (out->stream != stdout) {
		if (fclose(out->stream) && !failed) {
			failed = 1;
			err = errno;
		}
	}
	out->stream = NULL;
	if (!failed)
		return NULL;
	if (err == ENOSPC || err == EDQUOT)
		return error_format(ERROR_FAILED,
				    "cannot write %s: the disk is full; free some "
				    "room or write elsewhere",
				    name);
	return error_errno(ERROR_FAILED, err, "cannot write %s", name);
}

struct error *outfile_commit(struct outfile *out)
{
	struct error *err = finish_stream(out);

	if (!err && out->temporary && rename(out->temporary, out->path))
		err = error_errno(ERROR_FAILED, errno, "cannot rename %s to %s", out->temporary,
				  out->path);
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
