/* The socket between the front and the keeper, both ends. */
#ifndef SERVE_SERVE_LINK_H
#define SERVE_SERVE_LINK_H

#include <stdbool.h>

#include "serve/serve_request.h"

/* Sends a request and waits for its answer. With status 0 the descriptors are valid. False: the
 * keeper is gone. */
bool serve_link_ask(int socket, const struct serve_request *request, const uint64_t *addresses,
		    struct serve_answer *ret, int ret_fds[SERVE_FDS]);

/* Receives a request whose every member is within its limits. 1: received; 0: the front is gone;
 * -1: it was none, and the front does what it must not. `addresses` has SERVE_MOST_ADDRESSES. */
int serve_link_receive(int socket, struct serve_request *ret, uint64_t *addresses);
/* Sends an answer, with the descriptors if its status is 0 and fds is not NULL. */
bool serve_link_answer(int socket, const struct serve_answer *answer, const int fds[SERVE_FDS]);
/* Receives an answer alone: the front's first packet. */
bool serve_link_await(int socket, struct serve_answer *ret);

#endif
