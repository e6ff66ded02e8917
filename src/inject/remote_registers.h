/*
 * The registers of a thread that makes system calls for gospect (inject/remote.h): as they were,
 * and as they are for a call. One file for each architecture.
 */
#ifndef INJECT_REMOTE_REGISTERS_H
#define INJECT_REMOTE_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/thread_registers.h"

/* Bytes of remote_registers_frame(), with the state of the floating-point unit. */
#define REMOTE_FRAME_MOST 20480

struct remote_registers;

/* Where the thread makes the system calls. */
struct remote_place {
	uint64_t syscall; /* address of a system call and a return */
	uint64_t restore; /* and of sigreturn */
	uint64_t frame;   /* of the signal frame, on the signal stack */
	uint64_t stack_low, stack_high;
};

/* Needs free(); NULL: there is no memory. */
struct remote_registers *remote_registers_create(void);

/* Of a stopped thread, which will repeat the system call that the stop interrupted. `memory`:
 * /proc/PID/mem. false: this thread cannot be used. */
bool remote_registers_save(pid_t id, int memory, struct remote_registers *ret);
/* The system call that it will make first when it goes on, where the kernel shows none of a thread
 * that a signal has stopped; -1: it will make none, or the kernel does show it. */
long remote_registers_next_call(const struct remote_registers *r, int memory);
uint64_t remote_registers_sp(const struct remote_registers *r);

/* The frame by which sigreturn gives the thread its registers back; the number of bytes. */
size_t remote_registers_frame(const struct remote_registers *r, const struct remote_place *place,
			      uint8_t ret[REMOTE_FRAME_MOST]);

/* The same for a child of the process: sigreturn makes it end, with all signals blocked. */
size_t remote_registers_end_frame(const struct remote_registers *r,
				  const struct remote_place *place, uint8_t ret[REMOTE_FRAME_MOST]);
/* As they were when the thread was stopped. */
struct thread_registers remote_registers_given(const struct remote_registers *r);

/* The thread is to make this call; behind it, it goes on in sigreturn. false: it is gone. */
bool remote_registers_call(pid_t id, const struct remote_registers *r,
			   const struct remote_place *place, long number,
			   const uint64_t arguments[6]);
/* The result of the call that it has made. */
bool remote_registers_result(pid_t id, int64_t *ret);
void remote_registers_restore(pid_t id, const struct remote_registers *r);

#endif
