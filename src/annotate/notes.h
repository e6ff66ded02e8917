/*
 * Facts about places in a stack: collected first, then looked up row by row. For the files of this
 * room alone.
 */
#ifndef ANNOTATE_NOTES_H
#define ANNOTATE_NOTES_H

#include <string.h>

#include "annotate/annotate.h"

enum note_kind {
	NOTE_RETURN,         /* the return address of `frame` */
	NOTE_FRAME_POINTER,  /* where `frame` saved its caller's frame pointer */
	NOTE_INTERRUPTED_LR, /* arm64: the lr of the function that a signal interrupted */
	NOTE_VARIABLE,
	NOTE_ARGUMENTS, /* room for arguments and results of `frame`, in its caller's frame */
};

struct note {
	uint64_t start;
	uint64_t end;
	enum note_kind kind;
	uint32_t frame;
	const struct variable *variable;
};

struct notes {
	struct note *items; /* those that end highest first; of the same end in the enum's order */
	size_t count;
	size_t capacity;
};

struct error *notes_collect(const struct annotate_input *in, struct notes *ret) must_check;
void notes_release(struct notes *notes);

/* The variables of a frame; the input has to have `variables`. */
static inline struct error *frame_variables(const struct annotate_input *in, const struct frame *f,
					    const struct variable **ret, size_t *ret_count)
{
	return in->variables(in->arg, stack_pc_address(f->word), !(f->word & STACK_PC_EXACT), ret,
			     ret_count);
}

/* The word of the copy at this address; false when it is not in it. */
static inline bool input_word(const struct annotate_input *in, uint64_t address, uint64_t *ret)
{
	uint64_t at = address - in->memory.sp;

	if (in->memory.size < sizeof(*ret) || at > in->memory.size - sizeof(*ret))
		return false;
	memcpy(ret, in->memory.bytes + at, sizeof(*ret));
	return true;
}

#endif
