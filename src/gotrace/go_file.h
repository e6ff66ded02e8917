/*
 * The parts of a file of Go's execution trace, for its writer and its reader: "go 1.22 trace" and
 * the additions of Go 1.23 to 1.27. Source: internal/trace/tracev2.
 */
#ifndef GOTRACE_GO_FILE_H
#define GOTRACE_GO_FILE_H

/* The first byte of a batch, or of an entry of a batch that is a table. */
enum {
	BATCH = 1,
	BATCH_STACKS = 2,
	STACK = 3,
	BATCH_STRINGS = 4,
	STRING = 5,
	BATCH_SAMPLES = 6,
	SAMPLE = 7, /* time, thread, P, goroutine (0: none), stack */
	FREQUENCY = 8,
	EXPERIMENTAL_BATCH = 49,
	SYNC = 50,
	CLOCK_SNAPSHOT = 51,
	END_OF_GENERATION = 52,
};

/* The limits of Go's own reader: bytes of a batch, frames of a stack, bytes of a string. */
enum { MAX_BATCH = 64 << 10, MAX_FRAMES = 128, MAX_STRING = 1024 };

#endif
