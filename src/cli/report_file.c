#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "cli/report.h"

struct error *report_read_bytes(const char *path, uint8_t **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = regular_file_open(path);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct stat st;
	size_t size = 0;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return error_format(ERROR_FAILED, "cannot read %s: it is not a regular file", path);
	bytes = malloc(st.st_size + 1);
	if (!bytes)
		return error_format(ERROR_NO_MEMORY,
				    "cannot read %s: it is larger than the free memory", path);
	while (n && size < (size_t)st.st_size) {
		n = read(fd, bytes + size, st.st_size - size);
		if (n < 0)
			return error_errno(ERROR_FAILED, errno, "cannot read %s", path);
		size += n;
	}
	if (!size)
		return error_format(ERROR_CORRUPT, "cannot read %s: it is empty", path);
	*ret = take_ptr(bytes);
	*ret_size = size;
	return NULL;
}

struct error *report_file_open(const char *path, const char *exe, struct report_file *ret)
{
	struct error *err = report_read_bytes(path, &ret->read, &ret->size);

	if (err)
		return err;
	ret->bytes = ret->read;
	ret->path = path;
	ret->exe = exe;
	return NULL;
}

bool report_file_is_trace(const struct report_file *file)
{
	return file->bytes &&
	       gospect_recorded_kind(file->bytes, file->size) == GOSPECT_RECORDED_TRACE;
}

struct error *report_file_error(const struct report_file *file, struct error *err)
{
	return file->read ? error_wrap(err, "cannot read %s", file->path) : err;
}

struct error *report_file_read(struct report_file *file, const struct gospect_recorded_options *how)
{
	struct gospect_recorded_options o = how ? *how : (struct gospect_recorded_options){0};
	struct gospect_error *err;

	if (file->profile)
		return NULL;
	o.size = sizeof(o);
	o.exe = file->exe;
	o.name = file->path;
	o.remark = say_remark;
	err = gospect_recorded_profile(file->bytes, file->size, &o, &file->profile);
	return report_file_error(file, library_error(err));
}

void report_file_release(struct report_file *file)
{
	gospect_profile_destroy(file->profile);
	free(file->read);
}
