/*
 * A file in memory. A file may become shorter while it is mapped, and a read beyond its end raises
 * SIGBUS. Here it is an ordinary error instead: the handler of SIGBUS calls mapped_file_repair(),
 * which puts zeros where the rest of the file was, and mapped_file_check() says what happened.
 * Check that after a read, before its result is used.
 *
 * A process that has no such handler does not permit PERMIT_MAPPING (base/permit.h). Then files are
 * read when they are opened. If one ends too soon, the error is the same.
 *
 * Several threads may read files, and open and close others, at the same time.
 */
#ifndef BASE_MAPPED_FILE_H
#define BASE_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct mapped_file;

/* Maps the first `size` bytes, more than 0. The descriptor may be closed then; `name` is for
 * messages, and is copied. */
struct error *mapped_file_open(int fd, size_t size, const char *name,
			       struct mapped_file **ret) must_check;
/* Closes NULL as well. */
void mapped_file_close(struct mapped_file *file);

const uint8_t *mapped_file_bytes(const struct mapped_file *file);
/* ERROR_CORRUPT in place of `err`, which may be NULL, when the file was truncated meanwhile: what
 * came of reading it means nothing then. Consumes err. */
struct error *mapped_file_check(struct mapped_file *file, struct error *err) must_check;

/* Reads its end, so that a truncation is noticed which nothing has run into yet. */
void mapped_file_probe(const struct mapped_file *file);

/* From the handler of a SIGBUS at this address: true when a file is mapped there, and is readable
 * now. */
bool mapped_file_repair(const void *address);
/* Whether a file was truncated, and closed without a mapped_file_check() that said so. */
bool mapped_file_unreported(void);

#endif
