/*
 * The owner of the frame record that the frame pointer leads to at a pc of Go code. If the caller
 * owns it, still or already, a chain of frame pointers lacks one frame: the caller
 * (golang/go#73753). Found by decoding the function up to the pc.
 *
 * Source: cmd/internal/obj/x86/obj6.go and arm64/obj7.go, preprocess().
 */
#ifndef PERFDATA_FRAME_RECORD_H
#define PERFDATA_FRAME_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "image/image.h"

enum record_owner {
	RECORD_OWN,     /* the chain is right */
	RECORD_CALLERS, /* the chain lacks the caller */
	RECORD_AHEAD, /* that of a call to come (runtime.duffcopy): the chain has a word too many */
	RECORD_UNKNOWN, /* the register has another use, or the code is unavailable */
};

struct record_place {
	enum record_owner owner;
	bool lr_is_caller; /* arm64: LR is the return address */
};

/* From an address on. */
struct record_change {
	uint64_t address;
	struct record_place place;
};

/* Functions that were decoded; of any number of images. */
struct frame_records {
	struct map functions; /* a number of the image, and the entry -> its first change + 1 */
	struct record_change *changes;
	size_t count;
	size_t capacity;
};

/* Before the instruction at the pc is done. The only error is ERROR_NO_MEMORY. */
struct error *frame_records_at(struct frame_records *r, const struct image *img, uint16_t number,
			       uint64_t pc, struct record_place *ret) must_check;
void frame_records_release(struct frame_records *r);

#endif
