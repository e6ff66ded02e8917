/*
 * What a thread's goroutine was at the very moment of a sample: its g, its labels, and where it had
 * left its stack. A small program that the kernel runs at each sample (eBPF) copies that from the
 * target's memory, some hundred bytes; read when the sample is taken out of its ring, a tick later,
 * they may be another request's.
 *
 * The program is told the m of each thread. Of a thread that it was not told of yet, it goes by the
 * g register, which C code uses as it likes: so what a moment says is that the goroutine at `g` was
 * so, and not that the thread worked for it. Who knows the latter compares.
 */
#ifndef ONCPU_MOMENT_H
#define ONCPU_MOMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/door.h"
#include "base/error.h"
#include "golayout/golayout.h"
#include "target/target.h"

/* On arm64 the kernel's chain does not lead from a stack to one below (arch/arm64,
 * perf_callchain.c), so what a goroutine has called on the system stack is known by these bytes
 * alone. */
#ifdef __aarch64__
enum { MOMENT_PARKED = 1024 };
#else
enum { MOMENT_PARKED = 256 };
#endif

enum {
	MOMENT_LABELS = 8,   /* of more of them, these alone */
	MOMENT_BUCKET = 272, /* runtime/map.go, up to Go 1.23 */
	MOMENT_STRING = 256, /* of longer ones, the beginning */
	MOMENT_TEXT = 2048,
	MOMENT_PIECES = 3 + 2 * MOMENT_LABELS,
};

/* How much of the labels there is; each has the one before. */
enum moment_stage {
	MOMENT_NOTHING,
	MOMENT_HEAD, /* the slice, or the map */
	MOMENT_LIST, /* its labels, or its first bucket; and strings, as far as `used` */
};

/* As the program writes it, up to the bytes that are used. */
struct moment {
	uint64_t g;
	uint64_t stack_lo; /* fields of g */
	uint64_t stack_hi;
	uint64_t sched_sp;
	uint64_t sched_pc;
	uint64_t sched_lr;
	uint64_t startpc;
	uint64_t goid;
	uint64_t labels;
	uint64_t ran;     /* g.trackingSeq, which moves with each time that it leaves "running" */
	uint64_t left_fp; /* as in struct goroutine_moment; on arm64 0 */
	uint64_t vdso_pc; /* m.vdsoPC, m.vdsoSP; on amd64 0 */
	uint64_t vdso_sp;
	uint64_t parked_size;          /* 0 or MOMENT_PARKED */
	uint8_t parked[MOMENT_PARKED]; /* from sched_sp on */
	/* Up to here without labels. */
	uint64_t stage;
	uint64_t used;
	uint64_t head[7]; /* the slice: pointer, length, capacity; or the map's address, the map */
	/* The labels (pairs of pointer and length), or the first bucket; then the strings' bytes.
	 */
	uint8_t bytes[MOMENT_BUCKET + MOMENT_TEXT];
};

struct moment_program;

/* ERROR_DENIED, ERROR_UNSUPPORTED: why it cannot be had here. */
struct error *moment_program_open(const struct golayout *lay, enum machine machine,
				  struct moment_program **ret) must_check;
void moment_program_close(struct moment_program *p);
/* The broker's part of it: a service of the door (DOOR_MOMENT). `arg` is not used. */
struct error *moment_program_serve(void *arg, struct door_call *call) must_check;

/* To be run at each sample; and the map that wants, for each processor, the event to write to. */
int moment_program_fd(const struct moment_program *p);
int moment_program_outputs(const struct moment_program *p);
/* Of this thread (as we call it) this is the m. */
void moment_program_tell(struct moment_program *p, pid_t tid, uint64_t m);

/* Whether these bytes, that come from such a program, are a whole moment. */
bool moment_is_whole(const struct moment *m, size_t size);

/* The pieces of memory that make up the set of labels at `labels`, as far as they were copied; at
 * most MOMENT_PIECES. `maps` as in struct label_sets. */
size_t moment_label_pieces(const struct moment *m, bool maps, struct target_range *ret);

#endif
