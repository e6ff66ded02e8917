/*
 * `gospect serve`: three kinds of processes.
 *
 * - The keeper, which is the process that calls serve_run(), keeps the privilege. It parses
 *   nothing: it receives small packets of fixed layout and starts workers.
 * - The front (serve_front.h) talks HTTP, and has no privilege at all.
 * - A worker (serve_work.h) answers one request. It reads one process, confined to that.
 *
 * So a client that takes over the front can ask for what any client may ask for, and a process that
 * takes over its worker can falsify the answer about itself.
 */
#ifndef SERVE_SERVE_KEEPER_H
#define SERVE_SERVE_KEEPER_H

#include <gospect/process.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/error.h"

struct serve_options {
	struct sockaddr_storage address; /* where to listen */
	socklen_t address_size;
	const pid_t *pids; /* the processes; NULL: all that can be read */
	size_t pid_count;
	bool children;   /* and what these have started, also later */
	const char *exe; /* of one process: an unstripped copy of its program; NULL: none */
	double budget;   /* percent of a core that a recording may use; 0: the default */
	bool traces;     /* serve /debug/pprof/trace, which writes to the process */
	const char *const *names; /* more names of this server, for Host; ends with NULL */
	const char *token;        /* NULL: none is needed */
	const char *certificate;  /* TLS, in PEM; NULL: none */
	const char *key;
	const char *client_ca; /* in PEM: clients need a certificate by it; NULL: they need none */
	const struct gospect_cancel *cancel; /* ends it */
	/* Called once with the address when it listens. */
	void (*listens)(void *arg, const char *address);
	/* Called before that where the kernel has no seccomp for the process that talks HTTP. */
	void (*unconfined)(void *arg);
	void *arg;
};

/* Serves until it is cancelled, which is no error, or until all processes have ended: *ret_ended is
 * true then. */
struct error *serve_run(const struct serve_options *options, bool *ret_ended) must_check;

#endif
