/*
 * The objects of the heap by type and by dominator, the paths that lead to them from roots, and
 * strings with several copies.
 *
 * The target runs while it is read, so the result is an estimate: `changed` of `words` were
 * different when a part of the heap was read again.
 */
#ifndef RETAINED_RETAINED_H
#define RETAINED_RETAINED_H

#include <stdio.h>

#include "retained/allocation_sites.h"
#include "retained/equal_strings.h"
#include "retained/holder_tree.h"

struct retained {
	struct object_graph graph;
	struct runtime_types types;
	struct type_table table;
	struct dominators dominators;
	struct number_array object_types; /* by rank */
	uint32_t *root_holders;           /* by node of a root: its holder */
	struct number_array
		shortest; /* by node: the one before it on a shortest path from a root */
	struct holder_tree holders;
	struct equal_strings strings;
	struct allocation_sites sites;
	bool is_exact;
	uint64_t words, changed;
	const char *command; /* the caller's */
	int pid;
};

struct retained_options {
	const atomic_int *stop; /* ERROR_STOPPED once it is not 0; NULL: never */
	bool is_exact;          /* the target does not change: a core file or a snapshot */
	size_t strings;         /* the most that are listed */
};

struct error *retained_find(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct retained_options *options,
			    struct retained **ret) must_check;
void retained_destroy(struct retained *r);

/* Changed words, in percent of all that were compared. */
double retained_error_percent(const struct retained *r);

/*
 * A row of the table of holders: a holder, and what it holds on the way down from it for as long as
 * nearly all of it (nine tenths) is held by one other.
 */
struct holder_row {
	uint32_t holder; /* the first: its retained bytes are those of the row */
	uint32_t last;
};

/* The holders of at least `least` bytes, most first. The caller frees *ret. */
struct error *retained_rows(const struct retained *r, uint64_t least, struct holder_row **ret,
			    size_t *ret_count) must_check;

/* "main.cache -> map[string]*main.Entry -> main.Entry.body -> []uint8" */
struct error *retained_add_path(struct retained *r, const struct holder_row *row,
				struct strbuf *ret) must_check;

/* One holder: "global main.cache", "goroutines (main.worker)", "main.Entry". It has no numbers: the
 * same one in another look has the same name. */
void retained_add_holder(const struct retained *r, uint32_t holder, struct strbuf *ret);

/* Where sampled objects of this type were allocated: *ret_count of r->sites from the result on. */
const struct allocation_site *retained_sites(const struct retained *r, const struct type_sum *type,
					     size_t *ret_count);

/* ".cache", ".shards[].items": the fields at this offset of a value of a runtime type. */
struct error *retained_add_fields(struct retained *r, uint64_t type, uint64_t offset,
				  struct strbuf *ret) must_check;

/* One file each. At most `rows` rows of each table; 0: all. */
struct error *retained_write_text(struct retained *r, size_t rows, FILE *out) must_check;
struct error *retained_write_json(struct retained *r, FILE *out) must_check;
/* The members of the JSON object, without the brace that opens it. */
struct error *retained_write_tables(struct retained *r, FILE *out) must_check;
struct error *retained_write_page(struct retained *r, FILE *out) must_check;
struct error *retained_write_hprof(struct retained *r, FILE *out) must_check;

static inline void cleanup_retained(struct retained **r)
{
	retained_destroy(*r);
}
#define _cleanup_retained_ __attribute__((cleanup(cleanup_retained)))

#endif
