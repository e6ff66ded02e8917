#include "collect/pace.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

static bool set_policy(pid_t thread, int policy)
{
	struct sched_param none = {0};

	return !sched_setscheduler(thread, policy, &none);
}

/* On a thread of its own, which may stay down there. */
static void *try_both_ways(void *arg)
{
	bool *worked = arg;

	*worked = set_policy(0, SCHED_IDLE) && set_policy(0, SCHED_OTHER);
	return NULL;
}

void pace_init(struct pace *p)
{
	pthread_t thread;

	*p = (struct pace){.thread = gettid()};
	if (sched_getscheduler(0) != SCHED_OTHER)
		return;
	if (!pthread_create(&thread, NULL, try_both_ways, &p->may_wait))
		pthread_join(thread, NULL);
}

void pace_lower(struct pace *p)
{
	if (p->may_wait)
		set_policy(p->thread, SCHED_IDLE);
}

void pace_raise(struct pace *p)
{
	if (p->may_wait)
		set_policy(p->thread, SCHED_OTHER);
}
