#include "sandbox/helper.h"

#include <pthread.h>
#include <stdlib.h>

#include "sandbox/half.h"

struct helper {
	struct broker_policy policy;
	struct half half;
	pthread_mutex_t lock; /* one request at a time */
};

struct error *helper_start(struct broker_service service, const char *name, struct helper **ret)
{
	struct helper *h = calloc(1, sizeof(*h));
	struct error *err;

	if (!h)
		return &error_no_memory;
	h->half = HALF_NONE;
	pthread_mutex_init(&h->lock, NULL);
	h->policy.serves_alone = true;
	h->policy.services[DOOR_HELPER] = service;
	err = half_start(&h->policy, name, &h->half);
	if (err)
		helper_end(h);
	else
		*ret = h;
	return err;
}

struct error *helper_ask(struct helper *h, struct door_call *call)
{
	struct error *err;

	pthread_mutex_lock(&h->lock);
	err = broker_ask(h->half.socket, DOOR_HELPER, call);
	pthread_mutex_unlock(&h->lock);
	return err;
}

void helper_end(struct helper *h)
{
	if (!h)
		return;
	half_end(&h->half);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
