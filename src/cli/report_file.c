#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "cli/report.h"
#include "perfdata/perfdata.h"

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

static bool begins_with(const uint8_t *bytes, size_t size, const char *text)
{
	return size >= strlen(text) && !memcmp(bytes, text, strlen(text));
}

static struct error *read_perfdata(const uint8_t *bytes, size_t size, struct report_file *ret)
{
	_cleanup_perfdata_remarks_ struct perfdata_remarks remarks = {0};
	struct error *err = perfdata_read(bytes, size, ret->wish.exe, &ret->profile, &remarks);

	for (size_t i = 0; !err && i < remarks.count; i++)
		say("%s: %s", ret->path, remarks.lines[i]);
	return err;
}

/* A file's kind is what its first bytes say, whatever its name is. */
static struct error *read_bytes(const uint8_t *bytes, size_t size, struct report_file *ret)
{
	if (perf_file_is(bytes, size))
		return read_perfdata(bytes, size, ret);
	if (ret->wish.exe)
		return error_format(ERROR_USAGE,
				    "--exe needs a perf.data file; this file is not one");
	if (begins_with(bytes, size, "go 1."))
		return report_read_trace(bytes, size, ret);
	if (ret->wish.root || ret->wish.per)
		return error_format(
			ERROR_USAGE,
			"--root and --per need an execution trace; this file is not one");
	return profile_read(bytes, size, &ret->profile);
}

struct error *report_file_open(const char *path, struct report_file *ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size = 0;
	struct error *err = report_read_bytes(path, &bytes, &size);

	if (err)
		return err;
	ret->path = path;
	return error_wrap(read_bytes(bytes, size, ret), "cannot read %s", path);
}

void report_file_release(struct report_file *file)
{
	profile_file_release(&file->profile);
	span_tables_release(&file->tables);
	summary_release(&file->summary);
	requests_release(&file->requests);
}
