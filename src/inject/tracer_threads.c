#include "inject/tracer_threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* How often a wait that takes longer is woken up, to look at the time. */
#define WAKE_NS 200000

#define WAKE_SIGNAL (SIGRTMIN + 6)

/* Before the threads that are lent one (inject/priority.h), which might not let go of theirs. */
#define PRIORITY 2

struct operation {
	struct error *(*step)(void *arg);
	void *arg;
	struct error *err;
};

struct second_tracer {
	pthread_t thread;
	sem_t asked, done;
	struct error *(*job)(void *arg, bool second); /* NULL: end */
	void *arg;
	struct error *err;
	bool can_work;
};

static void on_wake(int signal)
{
}

/* From time to time this thread's waits are interrupted, for their deadlines. */
static bool start_waking(timer_t *ret)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = WAKE_SIGNAL};
	struct itimerspec often = {{.tv_nsec = WAKE_NS}, {.tv_nsec = WAKE_NS}};
	sigset_t wake;

	event.sigev_notify_thread_id = gettid();
	sigemptyset(&wake);
	sigaddset(&wake, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
	return !timer_create(CLOCK_MONOTONIC, &event, ret) && !timer_settime(*ret, 0, &often, NULL);
}

/* False: errno says why not. */
static bool begin(timer_t *ret_timer)
{
	struct sched_param priority = {.sched_priority = PRIORITY};

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
	return start_waking(ret_timer);
}

bool tracer_is_real_time(void)
{
	return (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

static void *operate(void *arg)
{
	struct operation *op = arg;
	timer_t timer;

	if (!begin(&timer)) {
		op->err = error_errno(ERROR_FAILED, errno, "cannot create a timer");
		return NULL;
	}
	op->err = op->step(op->arg);
	timer_delete(timer);
	return NULL;
}

/* A stop signal stops all of gospect's threads, whichever takes it, and would keep the target
 * stopped until somebody continues gospect: so all block it until the step is done. */
static void block_job_control_and(const sigset_t *mask)
{
	sigset_t set = *mask;

	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGTTIN);
	sigaddset(&set, SIGTTOU);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

struct error *run_on_tracer_thread(struct error *(*step)(void *arg), void *arg)
{
	struct operation op = {step, arg, NULL};
	struct sigaction wake = {.sa_handler = on_wake}, before;
	sigset_t all, mask;
	pthread_t thread;
	int err;

	sigaction(WAKE_SIGNAL, &wake, &before);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	err = pthread_create(&thread, NULL, operate, &op);
	block_job_control_and(&mask);
	if (!err)
		pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	sigaction(WAKE_SIGNAL, &before, NULL);
	return err ? error_errno(ERROR_FAILED, err, "cannot start a thread") : op.err;
}

static void await(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR) {
	}
}

static void *work(void *arg)
{
	struct second_tracer *second = arg;
	timer_t timer;

	second->can_work = begin(&timer);
	sem_post(&second->done);
	if (!second->can_work)
		return NULL;
	for (await(&second->asked); second->job; await(&second->asked)) {
		second->err = second->job(second->arg, true);
		sem_post(&second->done);
	}
	timer_delete(timer);
	return NULL;
}

static bool have_two_cpus(void)
{
	cpu_set_t cpus;

	/* EINVAL: there are more CPUs than fit. */
	return sched_getaffinity(0, sizeof(cpus), &cpus) ? errno == EINVAL : CPU_COUNT(&cpus) > 1;
}

struct second_tracer *second_tracer_start(void)
{
	struct second_tracer *second = have_two_cpus() ? calloc(1, sizeof(*second)) : NULL;

	if (!second)
		return NULL;
	sem_init(&second->asked, 0, 0);
	sem_init(&second->done, 0, 0);
	if (pthread_create(&second->thread, NULL, work, second)) {
		free(second);
		return NULL;
	}
	await(&second->done);
	if (second->can_work)
		return second;
	pthread_join(second->thread, NULL);
	free(second);
	return NULL;
}

static void ask(struct second_tracer *second, struct error *(*job)(void *arg, bool second),
		void *arg)
{
	second->job = job;
	second->arg = arg;
	sem_post(&second->asked);
}

struct error *second_tracer_share(struct second_tracer *second,
				  struct error *(*job)(void *arg, bool second), void *arg)
{
	struct error *err;

	if (!second)
		return job(arg, false);
	ask(second, job, arg);
	err = job(arg, false);
	await(&second->done);
	if (!err)
		return second->err;
	error_destroy(second->err);
	return err;
}

void second_tracer_end(struct second_tracer *second)
{
	if (!second)
		return;
	ask(second, NULL, NULL);
	pthread_join(second->thread, NULL);
	sem_destroy(&second->asked);
	sem_destroy(&second->done);
	free(second);
}
