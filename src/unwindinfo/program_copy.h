/*
 * A copy of a program with additional sections in a segment of their own, which is loaded with it.
 * For unwinders that read the tables of the running program alone.
 */
#ifndef UNWINDINFO_PROGRAM_COPY_H
#define UNWINDINFO_PROGRAM_COPY_H

#include "unwindinfo/debug_elf.h"

/*
 * The addresses of the sections are behind the program, in their order; the first begins at a page.
 * .eh_frame_hdr is one. ERROR_UNSUPPORTED: the program has such tables already, or its header has
 * no room for two more segments.
 */
struct error *program_copy_write(const struct elf_file *program,
				 const struct debug_section *sections, size_t count,
				 FILE *out) must_check;

#endif
