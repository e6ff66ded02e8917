/*
 * A Go program's own call frame information (.debug_frame), as debuggers read it: where the
 * caller's stack pointer and the return address are, at each instruction. Parsed by libdw. Go
 * writes it from the same numbers as pcsp (cmd/link/internal/ld/dwarf.go, writeframes), and leaves
 * it out with -s or -w.
 */
#ifndef IMAGE_DEBUG_FRAME_H
#define IMAGE_DEBUG_FRAME_H

#include "image/image.h"

struct debug_frame;

/* Reads it from the program's file, else from its unstripped file; neither is needed afterwards.
 * ERROR_UNSUPPORTED: they have none. ERROR_CORRUPT: it cannot be read. */
struct error *debug_frame_open(const struct image *img, struct debug_frame **ret) must_check;
void debug_frame_close(struct debug_frame *f);

/* Bytes from SP to the return address on amd64, to the caller's SP on arm64: what pcsp says, too.
 * False: nothing is said of this address, or something that is not counted from SP. */
bool debug_frame_sp_delta(const struct debug_frame *f, uint64_t pc, int32_t *ret);

static inline void cleanup_debug_frame(struct debug_frame **f)
{
	debug_frame_close(*f);
}
#define _cleanup_debug_frame_ __attribute__((cleanup(cleanup_debug_frame)))

#endif
