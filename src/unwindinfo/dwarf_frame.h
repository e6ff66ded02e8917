/*
 * Rows of functions as call frame information of DWARF: the sections .debug_frame, and .eh_frame
 * with its table .eh_frame_hdr. Source: DWARF 5, 6.4; Linux Standard Base Core 5.0, 10.6.
 */
#ifndef UNWINDINFO_DWARF_FRAME_H
#define UNWINDINFO_DWARF_FRAME_H

#include "base/strbuf.h"
#include "unwindinfo/frame_rows.h"

enum { FUNCTION_KINDS = KIND_SIGRETURN + 1 };

/* A description of a function, in .eh_frame. */
struct described_function {
	uint64_t start;
	uint64_t at;
};

struct dwarf_frame {
	enum machine machine;
	bool is_eh;       /* .eh_frame; else .debug_frame */
	uint64_t address; /* of the section; 0 for .debug_frame */
	struct strbuf bytes;
	size_t common[FUNCTION_KINDS];  /* where the common part of each kind is, + 1; 0: nowhere */
	struct described_function *all; /* by address; .eh_frame alone */
	size_t count;
	size_t capacity;
	bool failed;  /* no memory */
	bool too_far; /* a function is 2 GB away from its description, which .eh_frame cannot say */
};

/* Functions come in the order of their addresses. */
void dwarf_frame_add(struct dwarf_frame *d, const struct go_func *f, const struct frame_rows *rows);
/* Ends .eh_frame, and makes the table of it, for a section at `address`. */
void dwarf_frame_finish(struct dwarf_frame *d, uint64_t address, struct strbuf *ret_table);
void dwarf_frame_release(struct dwarf_frame *d);

#endif
