/*
 * The owner of the frame record that the frame pointer leads to at a pc of Go code. If it belongs
 * to the caller, a callchain by frame pointers lacks the caller (golang/go#73753). Found by
 * decoding the function up to the pc.
 *
 * Source: cmd/internal/obj/x86/obj6.go and arm64/obj7.go, preprocess().
 */
#ifndef IMAGE_FRAME_RECORD_H
#define IMAGE_FRAME_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "image/image.h"

enum record_owner {
	RECORD_OWN,     /* the callchain is right */
	RECORD_CALLERS, /* the callchain lacks the caller */
	RECORD_AHEAD,   /* that of a call to come (runtime.duffcopy): the callchain has a word too
			 * many */
	RECORD_UNKNOWN, /* the register is used otherwise, or the code is unavailable */
};

struct record_place {
	enum record_owner owner;
	bool lr_is_caller; /* arm64: LR is the return address */
};

/* Holds from this address on. */
struct record_change {
	uint64_t address;
	struct record_place place;
};

/* The decoded functions, of any number of images. */
struct frame_records {
	struct map functions; /* a number of the image, and the entry -> its first change + 1 */
	struct record_change *changes;
	size_t count;
	size_t capacity;
};

/* At the pc, before its instruction runs. The only error is ERROR_NO_MEMORY. */
struct error *frame_records_at(struct frame_records *r, const struct image *img, uint16_t number,
			       uint64_t pc, struct record_place *ret) must_check;
/* All changes of one function, in order, into r->changes, instead of what is there. The last is at
 * its end. The only error is ERROR_NO_MEMORY. */
struct error *frame_records_function(struct frame_records *r, const struct image *img,
				     const struct go_func *f) must_check;
void frame_records_release(struct frame_records *r);

#endif
