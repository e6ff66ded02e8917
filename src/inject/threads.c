#include "inject/threads.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

/* As long as all threads together may take to stop, when one of them cannot; and in any case: on a
 * machine with much to do, a thread has to wait for a processor before it can stop. */
#define STOP_NS 30000000ull
#define STOP_MOST_NS 1000000000ull
/* As long as another gospect may have one of them, on a busy machine. */
#define BORROWED_NS 300000000ull
/* How often a wait that takes longer is woken up, to look at the time. */
#define WAKE_NS 10000000

#define WAKE_SIGNAL (SIGRTMIN + 6)

struct operation {
	struct error *(*step)(void *arg);
	void *arg;
	struct error *err;
};

static void on_wake(int signal)
{
}

static void *operate(void *arg)
{
	struct operation *op = arg;
	struct sched_param priority = {.sched_priority = 1};
	sigset_t wake;

	sigemptyset(&wake);
	sigaddset(&wake, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
	op->err = op->step(op->arg);
	return NULL;
}

/* Joins it, and interrupts its waits from time to time, for their deadlines. */
static void join_and_wake(pthread_t thread)
{
	struct timespec until;

	for (;;) {
		uint64_t end = clock_read(CLOCK_REALTIME) + WAKE_NS;

		until.tv_sec = end / 1000000000;
		until.tv_nsec = end % 1000000000;
		if (pthread_timedjoin_np(thread, NULL, &until) != ETIMEDOUT)
			return;
		pthread_kill(thread, WAKE_SIGNAL);
	}
}

struct error *surgery(struct error *(*step)(void *arg), void *arg)
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
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!err)
		join_and_wake(thread);
	sigaction(WAKE_SIGNAL, &before, NULL);
	return err ? error_errno(ERROR_FAILED, err, "cannot start a thread") : op.err;
}

static struct stopped_thread *find(struct threads *t, pid_t id)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].id == id)
			return &t->items[i];
	return NULL;
}

static pid_t tracer_of(pid_t id)
{
	char path[64], line[128];
	int tracer = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", id);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	fclose(f);
	return tracer;
}

static struct error *must_check has_tracer(pid_t pid, pid_t tracer)
{
	return error_format(ERROR_DENIED,
			    "process %d is traced by process %d, a debugger or strace; trace needs "
			    "it for itself for a moment",
			    pid, tracer);
}

struct error *threads_check_untraced(pid_t pid)
{
	struct dirent *entry;
	pid_t tracer = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return error_format(ERROR_GONE, "process %d has ended", pid);
	while (!tracer && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			tracer = tracer_of(atoi(entry->d_name));
	closedir(dir);
	return tracer ? has_tracer(pid, tracer) : NULL;
}

static struct error *must_check cannot_seize(pid_t pid, pid_t id, int err)
{
	pid_t tracer = tracer_of(id);

	if (err == EPERM && tracer)
		return has_tracer(pid, tracer);
	return error_errno(err == EPERM ? ERROR_DENIED : ERROR_FAILED, err,
			   "cannot stop thread %d of process %d by ptrace (run as root, or give "
			   "gospect CAP_SYS_PTRACE; in a container, allow ptrace)",
			   id, pid);
}

/* It goes on until it is interrupted. A thread that is known, or gone by now, is no error. */
static struct error *must_check seize(struct threads *t, pid_t id)
{
	long options = PTRACE_O_TRACESYSGOOD | (t->suspend_seccomp ? PTRACE_O_SUSPEND_SECCOMP : 0);

	if (find(t, id))
		return NULL;
	if (!array_reserve(&t->items, &t->capacity, t->count + 1))
		return &error_no_memory;
	if (ptrace(PTRACE_SEIZE, id, NULL, options)) {
		/* A thread that is a zombie already is EPERM, too. */
		if (errno == ESRCH || (errno == EPERM && !tracer_of(id) && t->count))
			return NULL;
		return cannot_seize(t->pid, id, errno);
	}
	t->items[t->count++] = (struct stopped_thread){.id = id};
	return NULL;
}

/* The folder of the threads has so many links, and two. Each that we have counts until we are told
 * of its end; so when there are as many, there is no other. */
static bool has_all(const struct threads *t)
{
	size_t alive = 0;
	struct stat st;

	for (size_t i = 0; i < t->count; i++)
		alive += !t->items[i].gone;
	return !fstat(dirfd(t->folder), &st) && st.st_nlink == alive + 2;
}

/* Those that are not known yet: behind the others. */
static struct error *must_check seize_new(struct threads *t)
{
	struct error *err = NULL;
	struct dirent *entry;

	if (has_all(t))
		return NULL;
	rewinddir(t->folder);
	while (!err && (entry = readdir(t->folder))) {
		pid_t id = atoi(entry->d_name);

		if (id > 0)
			err = seize(t, id);
	}
	return err;
}

static void note(struct stopped_thread *thread, int status)
{
	if (!WIFSTOPPED(status)) {
		thread->gone = true;
		return;
	}
	thread->stopped = true;
	/* An event's stop has its number above the signal; else the thread is taking a signal. */
	thread->signal = status >> 16 ? 0 : WSTOPSIG(status);
}

/* It sleeps so that no signal wakes it up: most likely until a child of vfork has called exec. */
static bool cannot_stop(const struct threads *t, pid_t id)
{
	char path[64], line[256], *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", t->pid, id);
	f = fopen(path, "re");
	if (!f)
		return false;
	end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return end && end[1] && end[2] == 'D';
}

static bool time_is_over(const struct threads *t, uint64_t since)
{
	uint64_t passed = clock_now() - since;

	if (passed < STOP_NS)
		return false;
	for (size_t i = 0; i < t->count; i++)
		if (!t->items[i].stopped && !t->items[i].gone && cannot_stop(t, t->items[i].id))
			return true;
	return passed > STOP_MOST_NS;
}

/* false when the time is over. */
static bool wait_for_stop(struct threads *t, struct stopped_thread *thread, uint64_t since)
{
	int status;

	while (waitpid(thread->id, &status, __WALL | __WNOTHREAD) < 0) {
		if (errno != EINTR) {
			thread->gone = true;
			return true;
		}
		if (time_is_over(t, since))
			return false;
	}
	note(thread, status);
	return true;
}

/* The last one first: when it has stopped most others have, and each that we sleep for wakes us,
 * who take a processor from those that are still to stop. */
static bool wait_for_stops(struct threads *t, uint64_t since)
{
	for (size_t i = t->count; i-- > 0;)
		if (!t->items[i].stopped && !t->items[i].gone &&
		    !wait_for_stop(t, &t->items[i], since))
			return false;
	return true;
}

static void interrupt(const struct threads *t, size_t from)
{
	for (size_t i = from; i < t->count; i++)
		ptrace(PTRACE_INTERRUPT, t->items[i].id, NULL, NULL);
}

struct error *threads_stop_one(struct threads *t, pid_t id)
{
	struct error *err;

	t->count = 0;
	err = seize(t, id);
	if (err)
		return err;
	interrupt(t, 0);
	if (!t->count || !wait_for_stops(t, clock_now()) || !t->items[0].stopped) {
		threads_resume(t);
		return &error_fault;
	}
	return NULL;
}

static struct error *must_check open_folder(struct threads *t)
{
	char path[64];

	if (t->folder)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/task", t->pid);
	t->folder = opendir(path);
	return t->folder ? NULL : error_format(ERROR_GONE, "process %d has ended", t->pid);
}

struct error *threads_stop_all(struct threads *t, uint64_t *ret_since)
{
	struct error *err = open_folder(t);
	size_t stopped = 0;

	t->count = 0;
	if (!err)
		err = seize_new(t);
	*ret_since = clock_now();
	while (!err && stopped < t->count) {
		interrupt(t, stopped);
		stopped = t->count;
		err = wait_for_stops(t, *ret_since) ? seize_new(t) : &error_fault;
	}
	if (err)
		threads_resume(t);
	return err;
}

bool threads_are_borrowed(const struct error *err, uint64_t since)
{
	return err && err->code == ERROR_DENIED && clock_now() - since < BORROWED_NS;
}

/* Those that have not stopped cannot be told to go; they are let go when our thread ends. */
void threads_resume(struct threads *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].stopped)
			ptrace(PTRACE_DETACH, t->items[i].id, NULL, (long)t->items[i].signal);
	t->count = 0;
}

void threads_release(struct threads *t)
{
	if (t->folder)
		closedir(t->folder);
	free(t->items);
	*t = (struct threads){0};
}
