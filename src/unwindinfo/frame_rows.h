/*
 * A Go function as rows, each from an address on: where the return address is, and where the frame
 * pointer of the caller is. The distances come from the function's pcsp table; whether the caller's
 * frame pointer is saved is found in its code (image/frame_record.h).
 */
#ifndef UNWINDINFO_FRAME_ROWS_H
#define UNWINDINFO_FRAME_ROWS_H

#include "image/frame_record.h"
#include "image/image.h"
#include "image/registers.h"

/* Where the caller's frame pointer is. */
enum saved_fp {
	FP_IN_REGISTER, /* nobody has changed it */
	FP_SAVED,       /* in the function's frame record */
	FP_UNKNOWN,
};

struct frame_row {
	uint64_t address;
	int32_t delta; /* as pclntab_sp_delta() has it; -1: the stack ends here, or is unknown */
	enum saved_fp fp;
};

enum function_kind {
	KIND_PLAIN,
	KIND_INJECTED, /* a signal made the call: the caller stands at the pc itself */
	KIND_SIGRETURN,
};

struct frame_rows {
	struct frame_row *items;
	size_t count;
	size_t capacity;
	uint64_t end; /* of the function without the padding behind it */
	enum function_kind kind;
	struct frame_records records;
	bool failed; /* no memory */
};

/* Replaces what is there. The only error is ERROR_NO_MEMORY. */
struct error *frame_rows_of(struct frame_rows *r, const struct image *img,
			    const struct go_func *f) must_check;
void frame_rows_release(struct frame_rows *r);

#endif
