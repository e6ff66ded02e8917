#include "serve/serve_answer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum serve_read take(int fd, void *to, size_t size, size_t *ret)
{
	ssize_t n;

	do
		n = read(fd, to, size);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? SERVE_READ_LATER : SERVE_READ_BROKEN;
	*ret = n;
	return n ? SERVE_READ_SOME : SERVE_READ_BROKEN;
}

/* Until `have` is `size`. */
static enum serve_read fill(int fd, void *to, size_t *have, size_t size)
{
	while (*have < size) {
		size_t n = 0;
		enum serve_read done = take(fd, (char *)to + *have, size - *have, &n);

		if (done != SERVE_READ_SOME)
			return done;
		*have += n;
	}
	return SERVE_READ_SOME;
}

static bool is_status(uint32_t status)
{
	return status == 200 || status == 400 || status == 403 || status == 404 || status == 500 ||
	       status == 501 || status == 503;
}

static bool is_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return n < size;
}

enum serve_read serve_stream_head(struct serve_stream *s)
{
	enum serve_read done = fill(s->fd, &s->head, &s->head_size, sizeof(s->head));

	if (done != SERVE_READ_SOME)
		return done;
	if (s->head.magic != SERVE_MAGIC || !is_status(s->head.status) ||
	    s->head.type >= SERVE_TYPES_OF_WORKERS ||
	    !is_text(s->head.remark, sizeof(s->head.remark)))
		return SERVE_READ_BROKEN;
	return SERVE_READ_SOME;
}

enum serve_read serve_stream_body(struct serve_stream *s, void *to, size_t size, size_t *ret)
{
	enum serve_read done;

	if (s->is_complete)
		return SERVE_READ_END;
	if (!s->left) {
		done = fill(s->fd, s->frame, &s->frame_size, sizeof(s->frame));
		if (done != SERVE_READ_SOME)
			return done;
		memcpy(&s->left, s->frame, sizeof(s->left));
		s->frame_size = 0;
		s->is_complete = !s->left;
		if (s->is_complete)
			return SERVE_READ_END;
		if (s->left > SERVE_MAX_FRAME)
			return SERVE_READ_BROKEN;
	}
	done = take(s->fd, to, size < s->left ? size : s->left, ret);
	if (done == SERVE_READ_SOME)
		s->left -= *ret;
	return done;
}
