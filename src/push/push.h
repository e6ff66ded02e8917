/*
 * Continuous profiles of many processes, sent to a server. A worker records each process
 * (push_worker.h), the spool keeps what is to be sent (spool.h), and the sender sends it
 * (sender.h). This process keeps the privilege: it starts workers, and parses nothing that they or
 * the server say, but frames of fixed form.
 */
#ifndef PUSH_PUSH_H
#define PUSH_PUSH_H

#include "push/destination.h"
#include "push/http_client.h"
#include "push/push_targets.h"

struct push_options {
	const struct destination *destination;
	struct http_options http;
	const char *where;      /* the URL as the user gave it, for messages */
	const char *token_file; /* NULL: none */
	const char *spool;
	uint64_t spool_bytes;
	double interval;           /* seconds */
	double budget;             /* percent of a core, for all */
	double duration;           /* seconds; 0: until it is cancelled */
	const char *const *labels; /* of the user, "KEY=VALUE"; NULL-terminated */
	bool no_names;             /* samples have no method and route of requests, and no links */
	struct push_wanted wanted;
	/* Requested by the handlers of SIGTERM and SIGINT, in workers too. */
	const struct gospect_cancel *cancel;
	void (*say)(void *arg, const char *line); /* a line about what happens, or went wrong */
	void *arg;
};

/* What became of all requests. */
struct push_summary {
	uint64_t processes, requests, sent, dropped, refused, waiting;
	double seconds, cpu_percent;
};

/* Until it is cancelled, the duration is over, or all of the processes that were given by id have
 * ended. */
struct error *push_run(const struct push_options *o, struct push_summary *ret) must_check;

#endif
