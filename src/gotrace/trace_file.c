#include "gotrace/trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/outfile.h"

/* Bytes written at once. Kernels without preemption run no other thread during a write, and a
 * thread of the lowest priority writes this file. */
#define WRITE_BYTES (32u << 10)

struct generation {
	uint64_t ns;
	size_t size;
	uint8_t *bytes;
};

struct trace_file {
	struct trace_file_options options;
	char *path;
	char *family;       /* in memory: the beginning of the names of its files */
	const char *ending; /* and their end; within `path` */
	char *incident;     /* the last such file */
	void *header;
	struct outfile out;
	uint64_t size;  /* of the complete part */
	uint64_t began; /* time of the first event, in ns */
	bool outgrown;  /* the last generation alone exceeded the limit of memory */
	/* In memory, oldest first. */
	struct generation *items;
	size_t count;
	size_t capacity;
};

static struct error *write_bytes(struct outfile *out, const char *path, const void *bytes,
				 size_t size)
{
	const uint8_t *p = bytes;
	unsigned int interrupted = 0;

	while (size) {
		ssize_t n = write(fileno(out->stream), p, size < WRITE_BYTES ? size : WRITE_BYTES);

		/* One signal may request the end; two mean that the reader is gone. */
		if (n < 0 && errno == EINTR && !interrupted++)
			continue;
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
			return error_format(
				ERROR_FAILED,
				"cannot write %s: no space left on device; free some space or "
				"write to another disk",
				path);
		if (n < 0)
			return error_errno(ERROR_FAILED, errno, "cannot write %s", path);
		p += n;
		size -= n;
	}
	return NULL;
}

/* Appends to the complete part. If that fails, a partial generation behind it is removed. Standard
 * output is not truncated: the user's own data may precede the trace (>>). */
static struct error *append(struct trace_file *file, const void *bytes, size_t size)
{
	struct error *err = write_bytes(&file->out, file->path, bytes, size);

	if (!err)
		file->size += size;
	else if (strcmp(file->path, "-") && ftruncate(fileno(file->out.stream), file->size) == 0)
		lseek(fileno(file->out.stream), file->size, SEEK_SET);
	return err;
}

static struct error *append_header(struct trace_file *file)
{
	return append(file, file->header, file->options.header_size);
}

/* Standard output is opened with the first bytes. */
static struct error *open_stream(struct trace_file *file)
{
	struct error *err = outfile_open_growing(file->path, &file->out);

	return err || !strcmp(file->path, "-") ? err : append_header(file);
}

static const char *find_ending(const char *path, const char *const *endings)
{
	size_t n = strlen(path);

	for (; endings && *endings; endings++) {
		size_t k = strlen(*endings);

		if (n > k && path[n - k - 1] != '/' && !strcmp(path + n - k, *endings))
			return path + n - k;
	}
	return path + n;
}

/* Checks early whether files can be created, so that no recording is lost. */
static struct error *must_check check_incidents(struct trace_file *file)
{
	_cleanup_outfile_ struct outfile out = {0};
	const char *ending = find_ending(file->path, file->options.endings);

	file->ending = ending;
	if (asprintf(&file->family, "%.*s-", (int)(ending - file->path), file->path) < 0) {
		file->family = NULL;
		return &error_no_memory;
	}
	return outfile_open_numbered(file->family, ending, &out);
}

struct error *trace_file_open(const struct trace_file_options *options, struct trace_file **ret)
{
	_cleanup_trace_file_ struct trace_file *file = calloc(1, sizeof(*file));
	struct error *err;

	if (!file)
		return &error_no_memory;
	file->options = *options;
	file->path = strdup(options->path);
	file->header = malloc(options->header_size + 1);
	if (!file->path || !file->header)
		return &error_no_memory;
	memcpy(file->header, options->header, options->header_size);
	err = options->flight_ns ? check_incidents(file) : open_stream(file);
	if (!err)
		*ret = take_ptr(file);
	return err;
}

static void forget_oldest(struct trace_file *file, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		file->size -= file->items[i].size;
		free(file->items[i].bytes);
	}
	file->count -= n;
	if (file->count)
		memmove(file->items, file->items + n, file->count * sizeof(*file->items));
}

/* How many generations are older than the seconds to keep. The one that reaches into these does not
 * count. */
static size_t count_old(const struct trace_file *file)
{
	uint64_t now = file->items[file->count - 1].ns;
	size_t n = 0;

	while (n + 1 < file->count && file->items[n + 1].ns + file->options.flight_ns <= now)
		n++;
	return n;
}

static struct error *remember(struct trace_file *file, const void *bytes, size_t size, uint64_t ns)
{
	size_t all = size + file->options.header_size;
	struct generation *g;

	while (file->count && file->size + all > file->options.max_bytes)
		forget_oldest(file, 1);
	file->outgrown = all > file->options.max_bytes;
	file->began = 0;
	if (file->outgrown)
		return NULL;
	if (!array_reserve(&file->items, &file->capacity, file->count + 1))
		return &error_no_memory;
	g = &file->items[file->count];
	g->bytes = malloc(size + 1);
	if (!g->bytes)
		return &error_no_memory;
	memcpy(g->bytes, bytes, size);
	g->ns = ns;
	g->size = size;
	file->count++;
	file->size += size;
	forget_oldest(file, count_old(file));
	file->began = file->items[0].ns;
	return NULL;
}

struct error *trace_file_add(struct trace_file *file, const void *bytes, size_t size, uint64_t ns)
{
	struct error *err = NULL;

	if (file->options.flight_ns)
		return remember(file, bytes, size, ns);
	if (!file->began)
		file->began = ns;
	if (!file->size)
		err = append_header(file);
	return err ? err : append(file, bytes, size);
}

bool trace_file_is_full(const struct trace_file *file, size_t size)
{
	return !file->options.flight_ns && file->size + size > file->options.max_bytes;
}

/* Opens the file of an incident at the present time. */
static struct error *must_check open_incident(const struct trace_file *file, const char *reason,
					      struct outfile *ret)
{
	_cleanup_free_ char *before = NULL, *after = NULL;
	time_t now = time(NULL);
	char when[32];
	struct tm tm;

	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	if (asprintf(&before, "%s%s", file->family, when) < 0)
		before = NULL;
	if (asprintf(&after, "-%s%s", reason, file->ending) < 0)
		after = NULL;
	return before && after ? outfile_open_numbered(before, after, ret) : &error_no_memory;
}

struct error *trace_file_write(struct trace_file *file, const char *reason, const char **ret_path)
{
	_cleanup_outfile_ struct outfile out = {0};
	struct error *err = open_incident(file, reason, &out);
	size_t size = file->options.header_size;

	if (!err)
		err = write_bytes(&out, out.path, file->header, size);
	for (size_t i = 0; !err && i < file->count; i++)
		err = write_bytes(&out, out.path, file->items[i].bytes, file->items[i].size);
	if (!err)
		err = outfile_commit(&out);
	if (err)
		return err;
	free(file->incident);
	file->incident = take_ptr(out.path);
	*ret_path = file->incident;
	return NULL;
}

struct error *trace_file_commit(struct trace_file *file)
{
	return outfile_commit(&file->out);
}

bool trace_file_is_outgrown(const struct trace_file *file)
{
	return file->outgrown;
}

struct outfile *trace_file_out(struct trace_file *file)
{
	return file->options.flight_ns ? NULL : &file->out;
}

const char *trace_file_family(const struct trace_file *file)
{
	return file->family;
}

uint64_t trace_file_size(const struct trace_file *file)
{
	return file->size;
}

uint64_t trace_file_began(const struct trace_file *file)
{
	return file->began;
}

void trace_file_close(struct trace_file *file)
{
	if (!file)
		return;
	forget_oldest(file, file->count);
	outfile_abandon(&file->out);
	free(file->items);
	free(file->header);
	free(file->incident);
	free(file->family);
	free(file->path);
	free(file);
}
