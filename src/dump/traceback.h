/*
 * Which frames of a stack the runtime shows, and how: runtime/traceback.go (traceback1, traceback2,
 * showfuncinfo, printFuncName, printcreatedby1).
 */
#ifndef DUMP_TRACEBACK_H
#define DUMP_TRACEBACK_H

#include "base/strbuf.h"
#include "dump/dump.h"

struct shown_frame {
	struct go_frame frame;
	uint64_t pc;    /* without STACK_PC_EXACT */
	uint32_t place; /* of its word in the stack */
};

struct traceback {
	struct shown_frame *frames; /* innermost first */
	size_t count;
	size_t capacity;
	/* After the first `head` frames this many are left out; -1: an unknown number. */
	size_t head;
	long elided;
};

enum traceback_length {
	TRACEBACK_WHOLE,
	TRACEBACK_PRINTED /* as long as the runtime prints it */
};

struct error *traceback_of(const struct image *img, struct stack stack, bool all,
			   enum traceback_length length, struct traceback *ret) must_check;
void traceback_release(struct traceback *tb);
#define _cleanup_traceback_ __attribute__((cleanup(traceback_release)))

/* Adds "main.worker(...)
 * \t/src/worker.go:41 +0x1d
 * " for each frame, and a line for frames that are left out. With values (NULL: none) the arguments
 * stand in the parentheses, and a line for each local variable follows. */
void traceback_add(struct strbuf *sb, const struct traceback *tb,
		   const struct goroutine_values *values);

/* The values of a frame; NULL: not known. Those of an inlined call are among those of the function
 * that it was inlined into. */
const struct frame_values *traceback_values(const struct goroutine_values *values,
					    const struct shown_frame *f);
/* The next local variable of a frame, from *i on, which exists at its line; NULL: there are no
 * more. */
const struct local_value *traceback_local(const struct frame_values *values,
					  const struct shown_frame *f, size_t *i);

/* Where a goroutine was created; false if the runtime would not print it. */
bool traceback_creator(const struct image *img, const struct dump_goroutine *g, bool all,
		       struct shown_frame *ret);
/* Adds "\t/src/main.go:12 +0x85
 * ", the line behind the creator's name. */
void traceback_add_creator_place(struct strbuf *sb, const struct shown_frame *f);

#endif
