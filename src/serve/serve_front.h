/*
 * The front: the process that talks HTTP, by libmicrohttpd. It has no privilege: it opens no file,
 * sees no process, and parses nothing but requests. It asks the keeper to start workers and passes
 * their answers on. One thread, one loop.
 */
#ifndef SERVE_SERVE_FRONT_H
#define SERVE_SERVE_FRONT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/types.h>

struct serve_front_options {
	int listener; /* a socket that listens */
	int keeper;   /* the socket for requests */
	pid_t parent;
	int32_t only;             /* the one process that is served; 0: several */
	bool is_fixed;            /* no other process can come later */
	const char *const *names; /* more names of this server, for Host; ends with NULL */
	const char *token;        /* NULL: none is needed */
	const char *certificate;  /* TLS, in PEM; NULL: none */
	const char *key;
	const char *client_ca; /* in PEM: clients need a certificate by it; NULL: they need none */
};

/* Its first packet is a struct serve_answer, whose status is 0 once it is ready. It ends with the
 * keeper. */
noreturn void serve_front(const struct serve_front_options *options);

#endif
