/*
 * System calls made by a thread of the target.
 *
 * gospect chooses a thread that sleeps in a system call, stops it, lets it make other system calls,
 * and then restores its registers. If gospect is killed in between, the thread still continues
 * where it was: a signal frame with its registers lies on its signal stack, and the system call
 * returns to the runtime's own sigreturn, or to that of the kernel's vDSO.
 */
#ifndef INJECT_REMOTE_H
#define INJECT_REMOTE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/plan.h"
#include "inject/remote_registers.h"
#include "inject/threads.h"
#include "target/target.h"

/* Room for a name, a path ... of a system call, in the target. */
#define REMOTE_TEXT_BYTES 256

struct remote {
	pid_t pid;
	int memory;             /* /proc/PID/mem, for writing */
	struct threads threads; /* the one */
	struct remote_place place;
	uint64_t text;
	pid_t child; /* that remote_fork() has made; 0: none */
	struct remote_registers *saved;
};

/* Finds a thread and stops it: to be called in run_on_tracer_thread(). `survey` was checked. */
struct error *remote_begin(struct remote *r, struct target *t, const struct survey *survey,
			   int memory, bool suspend_seccomp) must_check;
/* Its result, also an -errno; the error is that the thread is gone, or stopped for good. */
struct error *remote_call(struct remote *r, long number, const uint64_t arguments[6],
			  int64_t *ret) must_check;
/*
 * Makes a copy of the process, its child: r->child, which this thread traces. It is born stopped,
 * and should nobody trace it any more, it ends at once, without a signal to its parent. *ret: its
 * id in the target's namespace, or an -errno. The descriptors are the target's own, not copies.
 */
struct error *remote_fork(struct remote *r, int64_t *ret) must_check;
/* Of the thread, as they were when it was stopped. */
struct thread_registers remote_thread_registers(const struct remote *r);
/* The address in the target of a copy of the text. */
struct error *remote_text(struct remote *r, const char *text, uint64_t *ret) must_check;
/* The thread goes on as if nothing had been. */
void remote_end(struct remote *r);

#endif
