/* One request and its answer. */
#ifndef SERVE_SERVE_EXCHANGE_H
#define SERVE_SERVE_EXCHANGE_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "serve/serve_answer.h"
#include "serve/serve_clients.h"
#include "serve/serve_request.h"

struct serve_exchange;

/* What the loop waits for: its events have a pointer to one of these. */
struct serve_watch {
	struct serve_exchange *exchange;
	bool is_client; /* the client has gone; else the worker has sent something */
};

struct serve_exchange {
	struct MHD_Connection *connection;
	struct serve_client *client;
	int epoll;
	struct serve_request request;
	struct strbuf body;   /* of POST */
	bool is_started;      /* a worker is at work, or was */
	bool is_suspended;    /* libmicrohttpd waits for serve_exchange_event() */
	bool is_gone;         /* the client is */
	unsigned int status;  /* of the answer; 0: none is queued yet */
	struct strbuf before; /* what the front says before the worker's answer */
	size_t sent;          /* of it */
	int leash;
	struct serve_stream stream;
	struct serve_watch from_worker, from_client;
};

/* NULL: no memory. */
struct serve_exchange *serve_exchange_create(struct MHD_Connection *connection,
					     struct serve_client *client, int epoll);
/* Stops the worker, if it is still at work. */
void serve_exchange_destroy(struct serve_exchange *x);

/* The worker's descriptors, from now on the exchange's. The connection waits for its answer. */
void serve_exchange_start(struct serve_exchange *x, const struct serve_request *request,
			  const int fds[SERVE_FDS]);
/* Queues the answer when its head is there, else waits on. */
enum MHD_Result serve_exchange_answer(struct serve_exchange *x);
/* One of its watches has something. */
void serve_exchange_event(const struct serve_watch *watch);

#endif
