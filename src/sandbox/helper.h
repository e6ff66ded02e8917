/*
 * A separate process that does one privileged job. It opens no files, and answers while the broker
 * is busy. Start it before the privilege is dropped.
 */
#ifndef SANDBOX_HELPER_H
#define SANDBOX_HELPER_H

#include "sandbox/broker.h"

struct helper;

/* `name`: the process's name. The process has a copy of what `service` needs, as of now. */
struct error *helper_start(struct broker_service service, const char *name,
			   struct helper **ret) must_check;
/* Asks it, and waits. An error is the service's, or says that the helper has ended. For any
 * thread. */
struct error *helper_ask(struct helper *h, struct door_call *call) must_check;
/* Ends it and waits for it. NULL is allowed. */
void helper_end(struct helper *h);

#endif
