/*
 * Unwind tables for a Go program, made of its own function table: a separate debug file with
 * .debug_frame, .eh_frame, .sframe and the names of the functions.
 */
#ifndef UNWINDINFO_UNWIND_FILE_H
#define UNWINDINFO_UNWIND_FILE_H

#include <stdio.h>

#include "base/error.h"
#include "image/elf_file.h"

struct unwind_file {
	size_t functions;
	size_t left_out;                  /* their code is not in the file */
	char build_id[ELF_BUILD_ID_SIZE]; /* GNU's; "" when the program has none */
};

enum unwind_file_kind {
	UNWIND_FILE_DEBUG, /* a separate debug file */
	UNWIND_FILE_COPY,  /* a copy of the program that has the tables in its memory */
};

/* ERROR_NOT_GO, ERROR_UNSUPPORTED, ERROR_CORRUPT: of the program. */
struct error *unwind_file_write(const char *path, enum unwind_file_kind kind, FILE *out,
				struct unwind_file *ret) must_check;

#endif
