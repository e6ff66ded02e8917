#include "collect/precedence.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/permit.h"

/* The largest share of a CPU, and how often it is measured. */
#define MOST_SHARE 0.3
#define WINDOW_NS 100000000ull
/* Where real-time priorities are not permitted. */
#define NICE (-10)

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The lowest real-time priority: above all normal threads, below those that an administrator has
 * raised. */
static bool go_first(void)
{
	struct sched_param lowest = {.sched_priority = 1};

	return !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
}

static void go_with_the_others(const struct precedence *p)
{
	sched_setscheduler(0, p->policy, &(struct sched_param){0});
}

void precedence_take(struct precedence *p)
{
	*p = (struct precedence){.policy = sched_getscheduler(0),
				 .nice = getpriority(PRIO_PROCESS, 0),
				 .ns = clock_now(),
				 .cpu_ns = cpu_ns()};
	if (!permitted(PERMIT_PRIORITY))
		p->nice = NICE;
	if (p->nice > NICE)
		setpriority(PRIO_PROCESS, 0, NICE);
	/* A thread with another policy than the default keeps it. */
	p->may = p->has = permitted(PERMIT_PRIORITY) && p->policy == SCHED_OTHER && go_first();
}

void precedence_check(struct precedence *p)
{
	uint64_t now = clock_now(), cpu;
	double share;

	if (!p->may || now - p->ns < WINDOW_NS)
		return;
	cpu = cpu_ns();
	share = (double)(cpu - p->cpu_ns) / (double)(now - p->ns);
	p->ns = now;
	p->cpu_ns = cpu;
	if (p->has && share > MOST_SHARE) {
		go_with_the_others(p);
		p->has = false;
	} else if (!p->has && share < MOST_SHARE / 2) {
		p->has = go_first();
	}
}

void precedence_give_back(struct precedence *p)
{
	if (p->has)
		go_with_the_others(p);
	if (p->nice > NICE)
		setpriority(PRIO_PROCESS, 0, p->nice);
	*p = (struct precedence){0};
}
