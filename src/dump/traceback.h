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
	uint64_t pc; /* without STACK_PC_EXACT */
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
 * " for each frame, and a line for frames that are left out. */
void traceback_add(struct strbuf *sb, const struct traceback *tb);

/* Where a goroutine was created; false if the runtime would not print it. */
bool traceback_creator(const struct image *img, const struct dump_goroutine *g, bool all,
		       struct shown_frame *ret);
/* Adds "\t/src/main.go:12 +0x85
 * ", the line behind the creator's name. */
void traceback_add_creator_place(struct strbuf *sb, const struct shown_frame *f);

#endif
