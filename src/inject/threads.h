/* Stopping a process's threads for a moment, by ptrace: all of it in run_on_tracer_thread(). Other
 * threads of gospect trace the sleeping ones (inject/tracer_threads.h), from a stop until they are
 * resumed. */
#ifndef INJECT_THREADS_H
#define INJECT_THREADS_H

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/map.h"
#include "inject/code_memory.h"
#include "inject/quota.h"
#include "inject/thread_registers.h"
#include "inject/tracer_threads.h"

/* From this number of sleeping threads on, helpers trace them. */
#define THREADS_MANY 64
/* The threads of each helper; more if there would be too many helpers. */
#define THREADS_EACH 400
#define THREADS_PARTS 64

struct stopped_thread {
	pid_t id;
	bool asleep;      /* when it was found */
	bool seized;      /* is traced by us */
	bool interrupted; /* to stop */
	bool stopped;
	bool gone;
	bool lent;         /* a priority, until it has stopped */
	bool looked_at;    /* by the caller, since it stopped */
	int signal;        /* that it was about to take: given back when it goes on */
	uint64_t slack;    /* its timer slack (inject/priority.h); 0: unknown */
	unsigned int part; /* the helper that traces it; 0: the caller */
	bool is_read;      /* its registers are, or cannot be */
	int read_errno;    /* why they cannot be, or 0 */
	struct thread_registers registers;
};

struct threads {
	pid_t pid;
	bool suspend_seccomp;
	pid_t held; /* the caller has stopped this one already: it is left alone; 0: none */
	struct stopped_thread *items;
	size_t count;
	size_t capacity;
	struct map known;    /* their ids */
	_Atomic pid_t stuck; /* why they could not be stopped: this one cannot be just now; or 0 */
	unsigned int tries;  /* in vain */
	uint64_t first_try_ns;
	uint64_t stood_ns;       /* for how long they stood at the last of these */
	uint64_t held_ns;        /* and those that slept */
	uint64_t interrupt_ns;   /* when the first of the sleeping threads was asked to stop */
	struct quota own;        /* the CPU quotas that count: gospect's */
	struct quota target;     /* and the target's */
	uint64_t fresh_cpu_ns;   /* CPU time of gospect when its quota was whole */
	bool may_lend;           /* priorities, as of the stop at hand */
	DIR *folder;             /* /proc/PID/task, once they have been stopped */
	struct helpers *helpers; /* NULL: few threads, or none could be started */
	struct threads_part {
		size_t from, to; /* its threads are among these */
	} parts[THREADS_PARTS + 1];
};

/* ERROR_DENIED when a debugger has one of the threads; it is named. */
struct error *threads_check_untraced(pid_t pid) must_check;

/* Stops this thread. ERROR_DENIED: another process traces it, or gospect may not; ERROR_GONE. */
struct error *threads_stop_one(struct threads *t, pid_t id) must_check;

/*
 * Stopping all of them has two parts. In the first the sleeping threads stop while the others run,
 * and the caller may look at them. In the second the others stop, new threads too; *ret_since is
 * the time of the request. A thread without a CPU to stop on is lent a priority, where that is
 * permitted (inject/priority.h). The second are traced only from then on: a traced thread stops
 * when it takes a signal, and Go sends its threads many. ERROR_FAULT, with nothing stopped: one is
 * in uninterruptible sleep (state D: the wait of vfork, a slow disk), or did not get a CPU for that
 * in half a millisecond; in more at later tries.
 */
struct error *threads_stop_asleep(struct threads *t) must_check;
struct error *threads_stop_others(struct threads *t, uint64_t *ret_since) must_check;
/* Both. */
struct error *threads_stop_all(struct threads *t, uint64_t *ret_since) must_check;

/* Of the process whose threads these are, by one that is stopped; `file`: its /proc/PID/mem. */
struct code_memory threads_code(const struct threads *t, int file);

/* Reads the registers of those that have stopped since they were read. */
void threads_read_registers(struct threads *t);

/* They could not be stopped because another tracer has one of them, and we are not long at it: it
 * may be a gospect that comes just now, and takes a thread for a moment before it sees us. */
bool threads_are_borrowed(const struct error *err, uint64_t since);

/* After ERROR_FAULT, before the next try: for so long that the target is slowed by 2 % at most, and
 * until `until`, or until the thread that could not be stopped can be. */
void threads_let_run(const struct threads *t, uint64_t until);

/* Why this thread, or any, could not be stopped or does not go on. */
struct error *threads_stand(pid_t pid, pid_t id) must_check;

/* Not 0: waits end with ERROR_STOPPED; NULL: nothing ends them. One for the process. */
extern const volatile sig_atomic_t *threads_end;
bool threads_must_end(void);

/*
 * Waits for a stop or the end of a thread that this thread traces; *ret_status as waitpid(2) has
 * it. False: a signal came first, or (*ret_gone) there is no such thread any more. A stop is looked
 * at and not taken: a process that takes it alone holds the signal that the thread was about to
 * take, and if it is killed then, the target never gets the signal.
 */
bool threads_await(pid_t id, int *ret_status, bool *ret_gone);

/* Resumes them, untraced: first those that ran. Returns the time of the last. */
uint64_t threads_resume(struct threads *t);
void threads_release(struct threads *t);

#endif
