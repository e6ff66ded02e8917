/*
 * Writing to the code of a process, which it may only read and execute.
 *
 * Most kernels permit that through /proc/PID/mem. Some permit it to ptrace(2) alone (from
 * Linux 6.12 on with CONFIG_PROC_MEM_NO_FORCE or CONFIG_PROC_MEM_FORCE_PTRACE, or booted with
 * proc_mem.force_override=never or ptrace), and so only while a thread of the process is stopped.
 */
#ifndef INJECT_CODE_MEMORY_H
#define INJECT_CODE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct code_memory {
	pid_t pid;
	int file;      /* /proc/PID/mem, for writing */
	pid_t stopped; /* a thread of it that this thread traces, and that is stopped; 0: none */
};

/* ERROR_FAULT: this kernel needs a stopped thread for it; nothing is written. ERROR_GONE,
 * ERROR_DENIED. */
struct error *code_memory_write(struct code_memory m, uint64_t address, const void *bytes,
				size_t n) must_check;

/* By ptrace alone; false: errno says why not. */
bool code_memory_poke(pid_t stopped, uint64_t address, const void *bytes, size_t n);

#endif
