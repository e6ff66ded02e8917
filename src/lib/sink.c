#include "lib/sink.h"

#include <errno.h>
#include <unistd.h>

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		bytes += n;
		size -= n;
	}
	return 0;
}

/* errno, or 0. */
static int put_all(const struct gospect_sink *sink, const void *bytes, size_t size)
{
	return sink->write ? sink->write(sink->arg, bytes, size) : write_all(sink->fd, bytes, size);
}

static struct error *must_check explain(int failed)
{
	return failed == ECANCELED ? &error_stopped
				   : error_errno(ERROR_FAILED, failed, "cannot write the output");
}

struct error *sink_put(const struct gospect_sink *sink, const void *bytes, size_t size)
{
	int failed = put_all(sink, bytes, size);

	return failed ? explain(failed) : NULL;
}

/* For fopencookie(): 0 is a failure there. */
static ssize_t put(void *cookie, const char *bytes, size_t size)
{
	struct sink_stream *s = cookie;

	if (!s->failed)
		s->failed = put_all(&s->sink, bytes, size);
	errno = s->failed;
	return s->failed ? 0 : (ssize_t)size;
}

struct error *sink_open(const struct gospect_sink *sink, struct sink_stream *ret)
{
	*ret = (struct sink_stream){.sink = *sink};
	ret->file = fopencookie(ret, "w", (cookie_io_functions_t){.write = put});
	return ret->file ? NULL : &error_no_memory;
}

struct error *sink_close(struct sink_stream *s, struct error *err)
{
	fclose(s->file);
	if (!err && s->failed)
		return explain(s->failed);
	return err;
}
