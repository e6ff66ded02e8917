/*
 * A dump without functions: first the mappings, then the text of the dump with an address for each
 * frame. With the program's file, it becomes the text of the dump, byte for byte.
 *
 * gospect raw dump 1 frames shown (or: all, of dump --all) mapping 400000-551000 0 9ed6c9fd...
 * /usr/bin/service
 *
 * goroutine 18 [chan receive, 3 minutes]: 0x48d1f2 0x46e0a1 exact created by 0x48d0c5 in goroutine
 * 1
 *
 * A mapping is its addresses, the offset in the file, the build id or "-", and the file. An address
 * is a return address or, "exact", that of an instruction; [truncated] and its like are by name.
 */
#ifndef DUMP_RAW_DUMP_H
#define DUMP_RAW_DUMP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "dump/dump.h"
#include "image/modules.h"

struct dump_raw {
	bool all;
	struct module_range *mappings;
	size_t count;
	size_t capacity;
	struct intern strings; /* of the mappings that were read */
	const char *body;      /* the text behind the head, in the bytes that were read */
	size_t size;
};

struct error *dump_write_raw(const struct dump *dump, const struct dump_raw *raw, bool groups,
			     FILE *out) must_check;

bool dump_raw_is(const void *bytes, size_t size);
/* Keeps the bytes, each of which is treated as hostile. ERROR_CORRUPT names the line. */
struct error *dump_raw_read(const void *bytes, size_t size, struct dump_raw *ret) must_check;
/* Writes the text of the dump with functions. */
struct error *dump_raw_symbolize(const struct dump_raw *raw, const struct image *img,
				 const atomic_int *cancel, FILE *out) must_check;
void dump_raw_release(struct dump_raw *raw);
#define _cleanup_dump_raw_ __attribute__((cleanup(dump_raw_release)))

/* For the writer. */
void raw_write_head(const struct dump_raw *raw, FILE *out);
void raw_add_stack(struct strbuf *sb, struct stack stack);
void raw_add_creator(struct strbuf *sb, const struct dump_goroutine *g);

#endif
