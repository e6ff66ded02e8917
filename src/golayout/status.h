/* The states of a goroutine, for gospect and the agent: constants without code. */
#ifndef GOLAYOUT_STATUS_H
#define GOLAYOUT_STATUS_H

/* g.atomicstatus: runtime/runtime2.go. */
enum goroutine_status {
	G_IDLE = 0,
	G_RUNNABLE = 1,
	G_RUNNING = 2,
	G_SYSCALL = 3,
	G_WAITING = 4,
	G_DEAD = 6,
	G_COPYSTACK = 8,
	G_PREEMPTED = 9,
	G_LEAKED = 10,
	G_DEADEXTRA = 11,
};

/* A bit of it: the stack is being scanned. */
#define G_SCAN 0x1000u

#endif
