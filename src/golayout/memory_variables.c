/*
 * In all versions and architectures (tests/rules/run checks it):
 *
 *   stackpoolalloc     refers to stackpool, then to mheap_, whose lock it needs
 *   persistentalloc1   refers to globalAlloc, its second field, then to memstats.other_sys; behind
 *                      the last reference to that comes persistentChunks, which it extends
 *   gcinit             refers to a variable of the sweeper, then to gcController; in Go 1.18 to its
 *                      second field
 *   newMarkBits        begins with gcBitsArenas.next
 *   stkbucket          begins with buckhash
 */
#include "golayout/memory_variables.h"

#include <stddef.h>

#include "base/array.h"
#include "golayout/view.h"
#include "image/data_refs.h"

/* gcBitsArenas is a lock and a list of free arenas, and then `next`; without the ranks of locks,
 * which only an experiment has. */
#define GC_BITS_NEXT 16
#define INLINED_INIT 18 /* the minor version in which gcController.init() is inlined */

struct variable {
	const char *symbol;
	size_t member;
	const char *function;
	/* The address, by the function's references; 0: not found. */
	uint64_t (*find)(const struct data_refs *refs, const struct golayout *lay);
	bool is_optional;
};

static uint64_t nth(const struct data_refs *refs, size_t n)
{
	return n < refs->count ? refs->items[n] : 0;
}

static uint64_t find_heap(const struct data_refs *refs, const struct golayout *lay)
{
	return nth(refs, 1);
}

static uint64_t find_stats(const struct data_refs *refs, const struct golayout *lay)
{
	uint64_t other = nth(refs, 2), offset = stats_at_other(&lay->n, 0);

	return other > offset ? other - offset : 0;
}

static uint64_t find_controller(const struct data_refs *refs, const struct golayout *lay)
{
	uint64_t found = nth(refs, 1);

	return found ? found - (lay->minor == INLINED_INIT ? 8 : 0) : 0;
}

static uint64_t find_gc_bits(const struct data_refs *refs, const struct golayout *lay)
{
	uint64_t next = nth(refs, 0);

	return next ? next - GC_BITS_NEXT : 0;
}

static uint64_t find_chunks(const struct data_refs *refs, const struct golayout *lay)
{
	size_t last = 0;

	for (size_t i = 3; i < refs->count; i++)
		if (refs->items[i] == refs->items[2])
			last = i;
	return last ? nth(refs, last + 1) : 0;
}

static uint64_t find_first(const struct data_refs *refs, const struct golayout *lay)
{
	return nth(refs, 0);
}

#define MEMBER(name) offsetof(struct memory_variables, name)

static const struct variable variables[] = {
	{"runtime.mheap_", MEMBER(heap), "runtime.stackpoolalloc", find_heap, false},
	{"runtime.memstats", MEMBER(stats), "runtime.persistentalloc1", find_stats, false},
	{"runtime.gcController", MEMBER(controller), "runtime.gcinit", find_controller, false},
	{"runtime.gcBitsArenas", MEMBER(gc_bits), "runtime.newMarkBits", find_gc_bits, true},
	{"runtime.persistentChunks", MEMBER(persistent_chunks), "runtime.persistentalloc1",
	 find_chunks, true},
	{"runtime.buckhash", MEMBER(bucket_table), "runtime.stkbucket", find_first, true},
};

static uint64_t *member_of(struct memory_variables *v, const struct variable *var)
{
	return (uint64_t *)((char *)v + var->member);
}

static struct error *must_check find_one(const struct image *img, const struct golayout *lay,
					 const struct variable *var, struct memory_variables *v)
{
	_cleanup_data_refs_ struct data_refs refs = {0};
	struct error *err = data_refs_of(img, var->function, &refs);

	if (!err)
		*member_of(v, var) = var->find(&refs, lay);
	if (err && err->code != ERROR_FAILED && err->code != ERROR_CORRUPT)
		return err;
	error_destroy(err);
	return NULL;
}

struct error *memory_variables_find_by_rules(const struct image *img, const struct golayout *lay,
					     struct memory_variables *ret)
{
	struct error *err = NULL;

	*ret = (struct memory_variables){0};
	for (size_t i = 0; i < ARRAY_SIZE(variables) && !err; i++)
		err = find_one(img, lay, &variables[i], ret);
	return err;
}

struct error *memory_variables_find(const struct image *img, const struct golayout *lay,
				    struct memory_variables *ret)
{
	struct error *err = NULL;

	*ret = (struct memory_variables){0};
	for (size_t i = 0; i < ARRAY_SIZE(variables) && !err; i++) {
		const struct variable *var = &variables[i];
		uint64_t *at = member_of(ret, var);

		*at = image_symbol(img, var->symbol);
		if (!*at)
			err = find_one(img, lay, var, ret);
		if (!err && !*at && !var->is_optional)
			err = error_format(
				ERROR_UNSUPPORTED,
				"cannot find %s in %s, which was built with %s; name an unstripped "
				"file of the same build with --exe",
				var->symbol, elf_file_name(img->elf), img->info.version);
	}
	return err;
}
