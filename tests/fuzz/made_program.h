/*
 * A synthetic Go program, as an ELF file of a few KB: build information, function table,
 * moduledata, and code from which the runtime's variables are found; and the memory of a process of
 * it, a few goroutines with labels and stacks. Seeds are made of it.
 */
#ifndef FUZZ_MADE_PROGRAM_H
#define FUZZ_MADE_PROGRAM_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "golayout/golayout.h"

#define PROGRAM_DATA 0x700000ull
#define PROGRAM_HEAP 0xc000000000ull
#define PROGRAM_HEAP_SIZE 0x4800u
#define PROGRAM_DATA_SIZE 0x900u
#define PROGRAM_THREAD 101 /* runs goroutine 3 */

struct made_program {
	int minor;
	enum machine machine;
	bool pie;      /* with relocations */
	bool sections; /* else it has program headers alone */
	bool pointers; /* build information as up to Go 1.17 */
	/* Made: */
	struct strbuf file;
	uint8_t data[PROGRAM_DATA_SIZE]; /* at PROGRAM_DATA, as at run time */
	uint8_t heap[PROGRAM_HEAP_SIZE]; /* at PROGRAM_HEAP */
	uint64_t running_pc, running_sp; /* of thread PROGRAM_THREAD */
};

/* Makes the file and the memory that the first members describe; aborts without memory. */
void made_program_init(struct made_program *p);
void made_program_release(struct made_program *p);

/* A descriptor of a file with these bytes; aborts on failure. */
int bytes_to_fd(const void *bytes, size_t size);

/* A core file of it. */
void made_program_core(const struct made_program *p, struct strbuf *ret);

#endif
