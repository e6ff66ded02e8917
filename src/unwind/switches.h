/*
 * The functions of the runtime at which a stack goes on elsewhere: for the files of this room
 * alone. Sources: runtime/asm_amd64.s, asm_arm64.s, sys_linux_*.s, time_linux_amd64.s,
 * runtime/cgo/asm_*.s.
 */
#ifndef UNWIND_SWITCHES_H
#define UNWIND_SWITCHES_H

enum stack_switch {
	SWITCH_NONE,
	SWITCH_SYSTEMSTACK, /* from the thread's stack back to the goroutine's, which waits */
	SWITCH_MORESTACK,   /* likewise; the goroutine is where its stack was too small */
	SWITCH_SCHEDULER,   /* the thread has left its goroutine for good, or has none */
	/* Under morestack: the goroutine is preempted where it begins a function, and here the
	 * thread lets go of it, as under mcall elsewhere. */
	SWITCH_RESCHEDULE,
	/* Under systemstack: lets the collector have the goroutine's stack meanwhile. */
	SWITCH_BORROWS,
	SWITCH_ASMCGOCALL,  /* C is called on the thread's stack */
	SWITCH_CGOCALLBACK, /* C has called: it waits on the thread's stack */
	SWITCH_CROSSCALL,   /* called by C: it has saved C's registers */
	SWITCH_VDSO,        /* calls the vDSO on the thread's stack, its own SP in a register */
	SWITCH_SIGNAL,      /* a signal interrupted the place in its context */
	SWITCH_SIGRETURN,   /* likewise; its handler has returned */
};

enum stack_switch switch_of(const char *function);

#endif
