/*
 * What the code of a function does with locks, and whether it holds one at a given instruction.
 *
 * The compiler inlines sync.(*Mutex).Lock, and the function table says which instructions came
 * from it. The atomic one among them takes the lock, and its operand is the mutex. Calls that were
 * not inlined have the mutex as first argument. Where the operand comes from, a slot of the frame
 * or a global variable, is found in the instructions before it. So the memory of a frame shows
 * which mutex it is. waits/lock_machine.h is what differs by machine.
 *
 * A function holds a lock at an instruction if it took the lock on every path to it, and did not
 * free it since: a data-flow analysis of the function. A call may have freed it if the called
 * function frees locks and takes none. Not seen are calls through interfaces, and calls of
 * functions that make such calls. The analysis needs no symbols.
 */
#ifndef WAITS_LOCK_CODE_H
#define WAITS_LOCK_CODE_H

#include "image/image.h"

enum lock_action {
	LOCK_TAKES,
	LOCK_TRIES, /* TryLock */
	LOCK_FREES,
	LOCK_DONE, /* WaitGroup.Done */
};

enum lock_base {
	LOCK_NOWHERE,
	LOCK_GLOBAL, /* at this address */
	LOCK_SLOT,   /* a pointer in the frame, at this offset from the CFA */
};

/* Where the address of a lock comes from. */
struct lock_operand {
	enum lock_base base;
	int64_t at;
	int64_t plus;      /* added to what was found there */
	bool dereferenced; /* that is the address of a pointer, to which `behind` is added */
	int64_t behind;
};

struct lock_event {
	enum lock_action action;
	bool reads; /* RLock, RUnlock */
	struct lock_operand operand;
	int line; /* of the function itself */
};

#define LOCK_NO_TARGET UINT32_MAX

struct lock_insn {
	uint32_t offset;
	uint32_t target; /* of a branch: an instruction's number, or LOCK_NO_TARGET */
	uint32_t from;   /* the first that branches forward to this one; or LOCK_NO_TARGET */
	bool is_join;    /* there are others */
	uint8_t length;
	bool ends;      /* the next instruction does not follow it */
	uint16_t event; /* + 1; 0: none */
};

struct lock_code {
	uint64_t entry;
	struct lock_insn *insns;
	size_t count;
	size_t capacity;
	struct lock_event *events;
	size_t event_count;
	size_t event_capacity;
	bool opaque; /* it has jumps with unknown targets */
};

/* The code of this function of Go 1.`minor`; *ret is NULL when it does nothing with locks, or its
 * code cannot be read. */
struct error *lock_code_read(const struct image *img, int minor, const struct go_func *f,
			     struct lock_code **ret) must_check;
/* Whether one of its events is of this kind; code may be NULL. */
bool lock_code_has(const struct lock_code *code, enum lock_action action);
void lock_code_destroy(struct lock_code *code);

/* The possible states of a lock: a sum of these. */
enum { LOCK_IS_FREE = 1, LOCK_IS_TAKEN = 2 };

/* A question about one frame. */
struct lock_question {
	uint64_t lock;
	bool reads;
	const uint64_t *addresses; /* of the locks of the events; 0: not known */
	uint64_t return_address;   /* of the frame */
	int in_progress;           /* the line of the call that is taking this lock now; 0: none */
	unsigned int before;       /* the possible states at the function's beginning */
};

/* The possible states there; 0 if the instruction is not reached. */
struct error *lock_code_ask(const struct lock_code *code, const struct lock_question *q,
			    unsigned int *ret) must_check;

#endif
