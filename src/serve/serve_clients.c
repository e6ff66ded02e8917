#include "serve/serve_clients.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"

struct serve_client *serve_clients_add(struct serve_clients *clients, int fd)
{
	struct serve_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->next = clients->first;
	c->place = &clients->first;
	if (c->next)
		c->next->place = &c->next;
	clients->first = c;
	clients->count++;
	serve_client_allow(c, SERVE_REQUEST_SECONDS);
	return c;
}

void serve_clients_remove(struct serve_clients *clients, struct serve_client *c)
{
	*c->place = c->next;
	if (c->next)
		c->next->place = c->place;
	clients->count--;
	free(c);
}

void serve_client_allow(struct serve_client *c, double seconds)
{
	c->deadline_ns = clock_now() + (uint64_t)(seconds * 1e9);
}

void serve_clients_sweep(const struct serve_clients *clients)
{
	uint64_t now = clock_now();

	for (const struct serve_client *c = clients->first; c; c = c->next)
		if (now > c->deadline_ns)
			shutdown(c->fd, SHUT_RDWR);
}
