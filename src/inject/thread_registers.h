/* The registers of a stopped thread that tell where it is: one file for each architecture. */
#ifndef INJECT_THREAD_REGISTERS_H
#define INJECT_THREAD_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The general registers, by their numbers in DWARF. */
#define THREAD_REGISTERS 32

struct thread_registers {
	uint64_t pc, sp;
	uint64_t frame; /* the frame pointer */
	uint64_t lr;    /* where a function without a frame returns to; 0: its stack says it */
	uint64_t tls;   /* the thread pointer */
	uint64_t mask;  /* signals that it blocks */
	uint64_t general[THREAD_REGISTERS]; /* as in struct target_registers */
};

/* false: errno says why not. */
bool thread_registers_read(pid_t id, struct thread_registers *ret);

#endif
