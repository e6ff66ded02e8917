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
/* The same for helpers, which are many and wait most of the time. */
#define HELPER_WAKE_NS 2000000
#define HELPER_STACK_BYTES (256 << 10)
/* How often to yield for a helper that ends: it may need this CPU, at the same priority. */
#define MOST_YIELDS 1000
#define YIELD_US 20

#define WAKE_SIGNAL (SIGRTMIN + 6)

/* Before the threads that are lent one (inject/priority.h), which might not let go of theirs. */
#define PRIORITY 2

struct operation {
	struct error *(*step)(void *arg);
	void *arg;
	struct error *err;
};

struct tracer_thread {
	pthread_t thread;
	struct operation op;
};

/* The timer that interrupts the waits of this thread. */
static __thread struct {
	timer_t timer;
	bool runs;
} waking;

struct helper {
	pthread_t thread;
	pid_t id;
	unsigned int part;
	sem_t asked, done;
	struct error *(*job)(void *arg, unsigned int part); /* NULL: end */
	void *arg;
	struct error *err;
	bool can_work;
};

struct helpers {
	unsigned int count;
	struct helper items[];
};

static void on_wake(int signal)
{
}

/* From time to time this thread's waits are interrupted, for their deadlines. */
static bool start_waking(long ns, timer_t *ret)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = WAKE_SIGNAL};
	struct itimerspec often = {{.tv_nsec = ns}, {.tv_nsec = ns}};
	sigset_t wake;

	event.sigev_notify_thread_id = gettid();
	sigemptyset(&wake);
	sigaddset(&wake, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
	return !timer_create(CLOCK_MONOTONIC, &event, ret) && !timer_settime(*ret, 0, &often, NULL);
}

/* False: errno says why not. */
static bool begin(long wake_ns, timer_t *ret_timer)
{
	struct sched_param priority = {.sched_priority = PRIORITY};

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
	return start_waking(wake_ns, ret_timer);
}

bool tracer_is_real_time(void)
{
	return (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

static void *operate(void *arg)
{
	struct operation *op = arg;

	waking.runs = begin(WAKE_NS, &waking.timer);
	if (!waking.runs) {
		op->err = error_errno(ERROR_FAILED, errno, "cannot create a timer");
		return NULL;
	}
	op->err = op->step(op->arg);
	if (waking.runs)
		timer_delete(waking.timer);
	return NULL;
}

void tracer_relax(void)
{
	struct sched_param none = {0};

	if (waking.runs)
		timer_delete(waking.timer);
	waking.runs = false;
	sched_setscheduler(0, SCHED_OTHER, &none);
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

struct error *tracer_thread_start(struct error *(*step)(void *arg), void *arg,
				  struct tracer_thread **ret)
{
	/* For good: it may run beside others. */
	struct sigaction wake = {.sa_handler = on_wake};
	struct tracer_thread *t = calloc(1, sizeof(*t));
	sigset_t all, mask;
	int err;

	if (!t)
		return &error_no_memory;
	t->op = (struct operation){step, arg, NULL};
	sigaction(WAKE_SIGNAL, &wake, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	err = pthread_create(&t->thread, NULL, operate, &t->op);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (err) {
		free(t);
		return error_errno(ERROR_FAILED, err, "cannot start a thread");
	}
	*ret = t;
	return NULL;
}

struct error *tracer_thread_join(struct tracer_thread *t)
{
	struct error *err;

	pthread_join(t->thread, NULL);
	err = t->op.err;
	free(t);
	return err;
}

static void await(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR) {
	}
}

static void *work(void *arg)
{
	struct helper *helper = arg;
	timer_t timer;

	helper->id = gettid();
	helper->can_work = begin(HELPER_WAKE_NS, &timer);
	sem_post(&helper->done);
	if (!helper->can_work)
		return NULL;
	for (await(&helper->asked); helper->job; await(&helper->asked)) {
		helper->err = helper->job(helper->arg, helper->part);
		sem_post(&helper->done);
	}
	timer_delete(timer);
	return NULL;
}

static void ask(struct helper *helper, struct error *(*job)(void *arg, unsigned int part),
		void *arg)
{
	helper->job = job;
	helper->arg = arg;
	sem_post(&helper->asked);
}

/* pthread_join() returns before the kernel detaches the threads that it traces. */
static void await_end(const struct helper *helper)
{
	pthread_join(helper->thread, NULL);
	for (int i = 0; !tgkill(getpid(), helper->id, 0); i++)
		if (i < MOST_YIELDS)
			sched_yield();
		else
			usleep(YIELD_US);
}

static bool start_helper(struct helper *helper, unsigned int part)
{
	pthread_attr_t small;
	int err;

	*helper = (struct helper){.part = part};
	sem_init(&helper->asked, 0, 0);
	sem_init(&helper->done, 0, 0);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, HELPER_STACK_BYTES);
	err = pthread_create(&helper->thread, &small, work, helper);
	pthread_attr_destroy(&small);
	if (err)
		return false;
	await(&helper->done);
	if (helper->can_work)
		return true;
	pthread_join(helper->thread, NULL);
	return false;
}

struct helpers *helpers_start(unsigned int count)
{
	struct helpers *h = calloc(1, sizeof(*h) + count * sizeof(h->items[0]));

	while (h && h->count < count && start_helper(&h->items[h->count], h->count + 1))
		h->count++;
	if (h && h->count)
		return h;
	free(h);
	return NULL;
}

unsigned int helpers_count(const struct helpers *h)
{
	return h ? h->count : 0;
}

struct error *helpers_share(struct helpers *h, struct error *(*job)(void *arg, unsigned int part),
			    void *arg)
{
	struct error *err;

	for (unsigned int i = 0; i < helpers_count(h); i++)
		ask(&h->items[i], job, arg);
	err = job(arg, 0);
	for (unsigned int i = 0; i < helpers_count(h); i++) {
		await(&h->items[i].done);
		if (err)
			error_destroy(h->items[i].err);
		else
			err = h->items[i].err;
	}
	return err;
}

void helpers_end(struct helpers *h)
{
	for (unsigned int i = 0; i < helpers_count(h); i++) {
		struct helper *helper = &h->items[i];

		ask(helper, NULL, NULL);
		await_end(helper);
		sem_destroy(&helper->asked);
		sem_destroy(&helper->done);
	}
	free(h);
}
