/*
 * The numbers of a page (html.c): unsigned LEB128, compressed by zlib, as base64. They are written
 * as they come, so a page of 100,000 stacks takes no memory for them.
 */
#ifndef PROFILE_PACKED_H
#define PROFILE_PACKED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

#include "base/error.h"

struct packed {
	FILE *out;
	z_stream deflate;
	uint8_t numbers[8192];
	size_t used;             /* of `numbers` */
	uint8_t bytes[3 * 2048]; /* compressed; base64 takes three at a time */
	bool failed;
};

struct error *packed_begin(struct packed *p, FILE *out) must_check;
void packed_add(struct packed *p, uint64_t number);
/* Writes the rest. Call it once after packed_begin(). */
struct error *packed_end(struct packed *p) must_check;

#endif
