/* The front's end of a worker's answer: a hostile stream, as the target may have taken the worker
 * over. It is read without waiting. */
#ifndef SERVE_SERVE_ANSWER_H
#define SERVE_SERVE_ANSWER_H

#include <stdbool.h>
#include <sys/types.h>

#include "serve/serve_request.h"

struct serve_stream {
	int fd;
	struct serve_head head;
	size_t head_size; /* bytes of it that are there */
	uint8_t frame[4]; /* the size of the next frame */
	size_t frame_size;
	uint32_t left; /* of the current frame */
	bool is_complete;
};

enum serve_read {
	SERVE_READ_SOME,
	SERVE_READ_LATER, /* nothing is there yet */
	SERVE_READ_END,   /* the answer is complete */
	SERVE_READ_BROKEN,
};

/* SERVE_READ_SOME: the head is whole and its members are within their limits. */
enum serve_read serve_stream_head(struct serve_stream *s);
/* Bytes of the body: *ret is how many. */
enum serve_read serve_stream_body(struct serve_stream *s, void *to, size_t size, size_t *ret);

#endif
