#include "serve/serve_reply.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int put_all(int fd, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0) {
			from += n;
			size -= n;
		}
	}
	return 0;
}

static int put_head(struct serve_reply *r, uint32_t status, enum serve_type type)
{
	struct serve_head head = {SERVE_MAGIC, status, type, 0, ""};

	memcpy(head.remark, r->remark, sizeof(head.remark));
	r->begun = true;
	return put_all(r->fd, &head, sizeof(head));
}

void serve_reply_remark(void *reply, const char *line)
{
	struct serve_reply *r = reply;
	size_t n = 0;

	if (*r->remark)
		return;
	for (; *line && n < sizeof(r->remark) - 1; line++)
		r->remark[n++] = *line >= ' ' && *line <= '~' ? *line : '?';
	r->remark[n] = '\0';
}

static int put_frames(struct serve_reply *r, const char *bytes, size_t size)
{
	int failed = 0;

	while (!failed && size) {
		uint32_t n = size < SERVE_MAX_FRAME ? size : SERVE_MAX_FRAME;

		failed = put_all(r->fd, &n, sizeof(n));
		if (!failed)
			failed = put_all(r->fd, bytes, n);
		bytes += n;
		size -= n;
	}
	return failed;
}

static int put(void *arg, const void *bytes, size_t size)
{
	struct serve_reply *r = arg;
	int failed = r->failed ? EPIPE : 0;

	if (!failed && !r->begun)
		failed = put_head(r, 200, r->type);
	if (!failed)
		failed = put_frames(r, bytes, size);
	r->failed = failed;
	/* Nobody waits for the answer any more. */
	return failed == EPIPE ? ECANCELED : failed;
}

struct gospect_sink serve_reply_sink(struct serve_reply *r)
{
	return gospect_sink_function(put, r);
}

struct error *serve_reply_text(struct serve_reply *r, const struct strbuf *text)
{
	if (text->failed)
		return &error_no_memory;
	put(r, text->data, text->length);
	return NULL;
}

static uint32_t status_of(const struct error *err)
{
	switch (err->code) {
	case ERROR_GONE:
	case ERROR_NOT_GO:
		return 404;
	case ERROR_DENIED:
		return 403;
	case ERROR_USAGE:
		return 400;
	case ERROR_UNSUPPORTED:
		return 501;
	default:
		return 500;
	}
}

void serve_reply_end(struct serve_reply *r, struct error *err)
{
	const uint32_t end = 0;

	if (err && !r->begun && !r->failed) {
		r->failed = put_head(r, status_of(err), SERVE_TYPE_TEXT) ||
			    put_frames(r, err->message, strlen(err->message)) ||
			    put_frames(r, "\n", 1) || put_all(r->fd, &end, sizeof(end));
		error_destroy(err);
		return;
	}
	if (!err && !r->begun)
		r->failed = put_head(r, 200, r->type);
	if (!err && !r->failed)
		put_all(r->fd, &end, sizeof(end));
	error_destroy(err);
}
