/*
 * The state of a thread's goroutine at the time of a sample: its g, its labels, and its stack
 * pointer. An eBPF program that the kernel runs at each sample copies these few hundred bytes from
 * the target's memory. If gospect read them later, with the sample's ring, they might belong to the
 * next request.
 *
 * gospect gives the program the m of each thread. For an unknown thread it uses the g register,
 * which C code may overwrite: so it proves the state of the goroutine at `g`, not that the thread
 * worked for it. A caller that knows the thread's goroutine compares.
 */
#ifndef ONCPU_CPU_SAMPLE_H
#define ONCPU_CPU_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/door.h"
#include "base/error.h"
#include "golayout/golayout.h"
#include "goroutine/goroutines.h"
#include "target/target.h"

/* On arm64 the kernel's callchain does not lead from one stack to the next (arch/arm64,
 * perf_callchain.c). So only these bytes show what a goroutine called on the system stack. */
#ifdef __aarch64__
enum { CPU_SAMPLE_PARKED = 1024 };
#else
enum { CPU_SAMPLE_PARKED = 256 };
#endif

enum {
	CPU_SAMPLE_LABELS = 8,   /* the most labels that are copied */
	CPU_SAMPLE_BUCKET = 272, /* runtime/map.go, up to Go 1.23 */
	CPU_SAMPLE_STRING = 256, /* the most bytes of a string that are copied */
	CPU_SAMPLE_TEXT = 2048,
	CPU_SAMPLE_PIECES = 3 + 2 * CPU_SAMPLE_LABELS,
};

/* How much of the labels was copied; each stage includes the one before. */
enum cpu_sample_stage {
	CPU_SAMPLE_NOTHING,
	CPU_SAMPLE_HEAD, /* the slice, or the map */
	CPU_SAMPLE_LIST, /* its labels, or its first bucket; and strings, up to `used` */
};

/* As the program writes it, up to the bytes that are used. */
struct cpu_sample {
	uint64_t g;
	uint64_t stack_lo; /* fields of g */
	uint64_t stack_hi;
	uint64_t sched_sp;
	uint64_t sched_pc;
	uint64_t sched_lr;
	uint64_t startpc;
	uint64_t goid;
	uint64_t labels;
	uint64_t ran;     /* g.trackingSeq, which changes whenever the goroutine stops running */
	uint64_t left_fp; /* as in struct sampled_goroutine; on arm64 0 */
	uint64_t vdso_pc; /* m.vdsoPC, m.vdsoSP; on amd64 0 */
	uint64_t vdso_sp;
	uint64_t parked_size;              /* 0 or CPU_SAMPLE_PARKED */
	uint8_t parked[CPU_SAMPLE_PARKED]; /* from sched_sp on */
	struct served_words served[SERVED_PLACES];
	/* Without labels, the output ends here. */
	uint64_t stage;
	uint64_t used;
	uint64_t head[7]; /* the slice: pointer, length, capacity; or the map's address, the map */
	/* The labels (pairs of pointer and length), or the first bucket; then the strings' bytes.
	 */
	uint8_t bytes[CPU_SAMPLE_BUCKET + CPU_SAMPLE_TEXT];
};

struct sample_program;

/* ERROR_DENIED, ERROR_UNSUPPORTED: why it cannot be loaded here. */
struct error *sample_program_open(const struct golayout *lay, enum machine machine,
				  struct sample_program **ret) must_check;
void sample_program_close(struct sample_program *p);
/* The broker's part of it: a service of the door (DOOR_SAMPLE_PROGRAM). `arg` is not used. */
struct error *sample_program_serve(void *arg, struct door_call *call) must_check;

/* The program to run at each sample, and the map that needs the output event of each CPU. */
int sample_program_fd(const struct sample_program *p);
int sample_program_outputs(const struct sample_program *p);
/* Where the goroutines of servers show which request they serve. */
void sample_program_set_places(struct sample_program *p,
			       const struct served_place places[SERVED_PLACES]);
/* Sets the m of this thread (the number is gospect's). */
void sample_program_set_m(struct sample_program *p, pid_t tid, uint64_t m);

/* Whether these bytes, the output of such a program, are a whole snapshot. */
bool cpu_sample_is_whole(const struct cpu_sample *m, size_t size);

/* The copied pieces of memory of the label set at `labels`; at most CPU_SAMPLE_PIECES. `maps` as in
 * struct label_sets. */
size_t cpu_sample_label_pieces(const struct cpu_sample *m, bool maps, struct target_range *ret);

#endif
