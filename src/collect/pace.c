#include "collect/pace.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/door.h"
#include "base/permit.h"

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

static long count_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? LONG_MAX : CPU_COUNT(&set);
}

void pace_init(struct pace *p)
{
	pthread_t thread;

	*p = (struct pace){.thread = gettid(),
			   .running = door_open("/proc/loadavg", 0),
			   .processors = count_processors()};
	if (!permitted(PERMIT_PRIORITY) || sched_getscheduler(0) != SCHED_OTHER)
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

bool pace_is_free(const struct pace *p)
{
	char text[128];
	ssize_t n = pread(p->running, text, sizeof(text) - 1, 0);
	long running;

	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%*s %*s %*s %ld/", &running) != 1 || running <= p->processors;
}

void pace_release(struct pace *p)
{
	if (p->running >= 0)
		close(p->running);
	p->running = -1;
}
