/*
 * Rows of functions in the format SFrame, version 2, which newer kernels and binutils read. Source:
 * the SFrame Format of GNU binutils 2.41 to 2.44. Functions at which a stack ends are left out: it
 * cannot say so.
 */
#ifndef UNWINDINFO_SFRAME_H
#define UNWINDINFO_SFRAME_H

#include "base/strbuf.h"
#include "unwindinfo/frame_rows.h"

struct sframe {
	enum machine machine;
	uint64_t text; /* where the first function is, or before that */
	struct strbuf functions;
	struct strbuf rows;
	uint32_t function_count;
	uint32_t row_count;
	bool too_far; /* a function is 2 GB away from the section */
};

/* Functions come in the order of their addresses. */
void sframe_add(struct sframe *s, const struct go_func *f, const struct frame_rows *rows);
/* Makes the section, which will be at `address`. False when there is no memory. */
bool sframe_finish(struct sframe *s, uint64_t address, struct strbuf *ret);
void sframe_release(struct sframe *s);

#endif
