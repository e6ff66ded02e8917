/* The worker's end of an answer: what it writes goes to the front in frames (serve_request.h). */
#ifndef SERVE_SERVE_REPLY_H
#define SERVE_SERVE_REPLY_H

#include <gospect/write.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "serve/serve_request.h"

struct serve_reply {
	int fd;
	enum serve_type type; /* of the answer that is written */
	bool begun;           /* its head is sent */
	bool failed;          /* the front does not take it any more */
	char remark[SERVE_REMARK_SIZE];
};

/* Keeps the first remark for the head: a callback of targets, with the reply as `arg`. */
void serve_reply_remark(void *reply, const char *line);

/* Sends the head before the first byte. */
struct gospect_sink serve_reply_sink(struct serve_reply *r);
/* A text as the whole of it. Fails if it is not complete. */
struct error *serve_reply_text(struct serve_reply *r, const struct strbuf *text) must_check;
/* Ends a complete answer; an error becomes the answer where nothing was sent yet, else the answer
 * stays incomplete. Consumes err. */
void serve_reply_end(struct serve_reply *r, struct error *err);

#endif
