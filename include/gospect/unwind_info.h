/* Unwind tables of a Go program, for other tools. */
#ifndef GOSPECT_UNWIND_INFO_H
#define GOSPECT_UNWIND_INFO_H

#include <gospect/write.h>

GOSPECT_BEGIN

struct gospect_unwind_info {
	size_t size;               /* of this structure; set by the caller */
	uint64_t functions;        /* functions in the tables */
	uint64_t left_out;         /* functions whose code is not in the file */
	char build_id[2 * 64 + 1]; /* GNU's, in hexadecimal; "" when the program has none */
};

/*
 * Writes a separate debug file (ELF) for a Go program of amd64 or arm64, stripped or not:
 * .debug_frame, .eh_frame with .eh_frame_hdr, .sframe, and the names of its functions. With these
 * tables, tools find each caller, also in functions without a frame, prologues and epilogues. `ret`
 * may be NULL.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_unwind_info_write(const char *program, struct gospect_sink sink,
			  struct gospect_unwind_info *ret);

/*
 * Writes a copy of the program with .eh_frame, .eh_frame_hdr and .sframe in a segment of their own,
 * for unwinders that read only the tables in a program's memory. GOSPECT_ERROR_UNSUPPORTED: the
 * program has .eh_frame_hdr already (cgo), or its header has no room.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_unwind_info_copy(const char *program, struct gospect_sink sink,
			 struct gospect_unwind_info *ret);

GOSPECT_END

#endif
