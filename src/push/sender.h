/*
 * The sender: a process of its own that talks to the server. It is given one request at a time, as
 * an open file, and answers what became of it. It has no privilege and reads no process
 * (sandbox/outgoing.h). What it says is hostile, because the server's answers are.
 */
#ifndef PUSH_SENDER_H
#define PUSH_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "push/http_client.h"

#define SENDER_TOKEN 4096
#define SENDER_TEXT 256

enum sender_outcome {
	SENDER_READY,   /* it has started, or why not: `text` */
	SENDER_SENT,    /* the server has it */
	SENDER_RETRY,   /* the server is away or busy */
	SENDER_DENIED,  /* the URL, the token or the certificate is wrong: as above, but for a user
			 */
	SENDER_REFUSED, /* the server does not want this request, now or later */
};

struct sender_answer {
	uint64_t serial; /* of the request */
	uint32_t outcome;
	int32_t status; /* of HTTP; 0: there was no answer */
	double retry_after;
	char text[SENDER_TEXT];
};

struct sender {
	pid_t pid;  /* 0: none */
	int socket; /* -1: none. Readable when it answers or has ended */
};

/* Starts it; its first answer is SENDER_READY. Keeps the options. */
struct error *sender_start(const struct http_options *o, struct sender *ret) must_check;
/* False: it has ended. */
bool sender_ask(const struct sender *s, uint64_t serial, int fd, size_t size, const char *token);
/* False: it has ended, or answers nonsense. The text ends in a NUL. */
bool sender_answer(const struct sender *s, struct sender_answer *ret);
/* Kills it. */
void sender_end(struct sender *s);

#endif
