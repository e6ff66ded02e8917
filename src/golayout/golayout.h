/*
 * Where the Go runtime keeps things: field offsets and constants of this target's Go version, and
 * the addresses of the runtime's variables.
 *
 * Offsets come from the binary's DWARF, else from the generated table of its release
 * (generated/go1_NN.h), else the target is refused. Constants always come from the table. Variables
 * come from symbols, else from the rules in runtime_variables.c. Nothing is believed before
 * golayout_validate() found the live process to agree.
 */
#ifndef GOLAYOUT_GOLAYOUT_H
#define GOLAYOUT_GOLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "target/target.h"

#define GOLAYOUT_MIN_MINOR 17
#define GOLAYOUT_MAX_MINOR 27

/* A field that this version does not have. Never 0. */
#define GOLAYOUT_ABSENT INT32_MIN

/*
 * Every number that differs by version, in fields.def:
 *   FIELD(name, type, path)   offset of path in type; path "" is the type's size
 *   CONSTANT(name, go_name)   value of a constant
 */
struct golayout_numbers {
#define FIELD(name, type, path) int32_t name;
#define CONSTANT(name, go_name) int32_t name;
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};

/* Addresses in the target; 0 when this version has no such variable. */
struct golayout_variables {
	uint64_t allglen;
	uint64_t allgptr;
	uint64_t allp; /* the slice header */
	uint64_t allm;
	uint64_t gomaxprocs;
	uint64_t sched;
	uint64_t wait_reason_strings;
	uint64_t wait_reason_count; /* entries; a number, not an address */
};

enum golayout_source { GOLAYOUT_FROM_DWARF, GOLAYOUT_FROM_TABLE };

struct golayout {
	int minor;
	int patch; /* 0 for go1.27 and go1.27rc1 as well */
	enum golayout_source numbers_from;
	bool variables_from_symbols;
	struct golayout_numbers n;
	struct golayout_variables v;
};

/*
 * Decides the offsets, loads the image's function table with them, finds the variables. With t NULL
 * (a file alone) variables are found as well, and nothing is read from memory. ERROR_UNSUPPORTED:
 * too old, too new, a development version, an experiment without DWARF; the message names it.
 */
struct error *golayout_open(struct image *img, struct target *t, struct golayout **ret) must_check;
void golayout_close(struct golayout *lay);

/*
 * Checks the result of golayout_open() against the live process (the rules of plausibility in
 * docs/internals/go-runtime.md): ERROR_UNSUPPORTED names the expected and the found value.
 * ERROR_FAULT or a count of 0 goroutines while the program is starting: *ret_starting is true, try
 * again later.
 */
struct error *golayout_validate(const struct golayout *lay, const struct image *img,
				struct target *t, bool *ret_starting) must_check;

/* The generated table of a release: a minor version has several where a patch release moved fields
 * (Go 1.23.12, 1.24.6). NULL when the minor version is unknown; for a later patch release than
 * there was when the table was made, the last. */
const struct golayout_numbers *golayout_table(int minor, int patch);
/* Replaces those that differ on this machine: its cache lines have another size, and mheap is
 * padded to them. The table is amd64's. */
void golayout_adapt(struct golayout_numbers *n, int minor, int patch, enum machine machine);

static inline void cleanup_golayout(struct golayout **lay)
{
	golayout_close(*lay);
}
#define _cleanup_golayout_ __attribute__((cleanup(cleanup_golayout)))

#endif
