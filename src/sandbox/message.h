/* The messages on the broker's socket: one packet each, with at most four descriptors. */
#ifndef SANDBOX_MESSAGE_H
#define SANDBOX_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/door.h"

enum message_kind { MESSAGE_OPEN, MESSAGE_PERF_EVENT, MESSAGE_TEMPORARY, MESSAGE_SERVICE };

struct message {
	uint32_t kind;
	/* A request: open's flags; a perf event's thread and CPU; the number of a directory or a
	 * service. An answer: an errno, or an enum error_code and, in the bytes, its text; 0: done.
	 */
	int32_t a, b;
	struct door_call call;
};

/* False: the other end is closed, or its buffer is full. Each sender waits for the answer before it
 * sends again, so there is room. */
bool message_send(int socket, const struct message *m);
/* Waits. False: the other end is closed, or the packet is no message. Descriptors are
 * close-on-exec. */
bool message_receive(int socket, struct message *ret);

#endif
