/* The connections of the server, and how long each may take: a client that sends its request one
 * byte at a time would hold its connection for ever, as libmicrohttpd counts from the last byte. */
#ifndef SERVE_SERVE_CLIENTS_H
#define SERVE_SERVE_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct serve_client {
	struct serve_client *next, **place;
	int fd;
	uint64_t deadline_ns; /* when it is closed */
};

/* Seconds: for the handshake of TLS and the request; between two requests; and for an answer, on
 * top of the time that was asked for. */
#define SERVE_REQUEST_SECONDS 10
#define SERVE_IDLE_SECONDS 75
#define SERVE_ANSWER_SECONDS 300

struct serve_clients {
	struct serve_client *first;
	size_t count;
};

/* NULL: no memory. */
struct serve_client *serve_clients_add(struct serve_clients *clients, int fd);
void serve_clients_remove(struct serve_clients *clients, struct serve_client *client);
/* From now on it has so many seconds. */
void serve_client_allow(struct serve_client *client, double seconds);
/* Shuts down the connections that have taken too long; libmicrohttpd closes them then. */
void serve_clients_sweep(const struct serve_clients *clients);

#endif
