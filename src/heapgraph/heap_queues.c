/*
 * The finalizers and cleanups of dead objects, which wait to be run. The runtime keeps them in
 * blocks outside the heap, each in a list of all blocks:
 *
 *   finalizers   runtime.allfin (mfinal.go). queuefinalizer() links a new block into it: it refers
 *                to finc, allfin, finc and allfin, one after the other, and nothing else so
 *   cleanups     runtime.gcCleanups.all (mcleanup.go), from Go 1.25 on: markroot() refers to it
 *                next behind allfin
 */
#include "heapgraph/heap_roots.h"

#include "base/array.h"
#include "image/data_refs.h"

#define MAX_BLOCKS (1u << 20)
#define WORDS 512

/* In words. Finalizers lie behind two links and a count; cleanups behind the head of a lock-free
 * list, a link and a count. */
struct block_form {
	size_t size, link, first;
};

static const struct block_form finalizers = {WORDS, 0, 3};
static const struct block_form cleanups = {64, 2, 3};

static uint64_t by_rule(const struct image *img)
{
	_cleanup_data_refs_ struct data_refs refs = {0};

	if (error_dropped(data_refs_of(img, "runtime.queuefinalizer", &refs)))
		return 0;
	for (size_t i = 0; i + 3 < refs.count; i++)
		if (refs.items[i] == refs.items[i + 2] && refs.items[i + 1] == refs.items[i + 3] &&
		    refs.items[i] != refs.items[i + 1])
			return refs.items[i + 1];
	return 0;
}

static uint64_t behind(const struct image *img, uint64_t all_finalizers)
{
	_cleanup_data_refs_ struct data_refs refs = {0};
	struct go_func f;

	if (!all_finalizers ||
	    !pclntab_find_name(&img->functions, "runtime.(*cleanupQueue).enqueue", &f) ||
	    error_dropped(data_refs_of(img, "runtime.markroot", &refs)))
		return 0;
	for (size_t i = 0; i + 1 < refs.count; i++)
		if (refs.items[i] == all_finalizers)
			return refs.items[i + 1];
	return 0;
}

static struct error *must_check visit_blocks(struct target *t, uint64_t list,
					     const struct block_form *form,
					     const struct heap_visit *visit)
{
	uint64_t words[WORDS], at = 0;
	struct error *err = list ? target_read_u64(t, list, &at) : NULL;

	for (size_t i = 0; i < MAX_BLOCKS && at && at % 8 == 0 && !err; i++) {
		err = target_read(t, at, words, form->size * sizeof(words[0]));
		for (size_t k = form->first; k < form->size && !err; k++)
			if (words[k])
				visit->word(visit->arg, at + k * 8, words[k]);
		at = words[form->link];
	}
	return err;
}

struct error *heap_queues_visit(struct target *t, const struct image *img,
				const struct heap_visit *visit)
{
	uint64_t list = image_symbol(img, "runtime.allfin");
	struct error *err;

	list = list ? list : by_rule(img);
	err = visit_blocks(t, list, &finalizers, visit);
	return err ? err : visit_blocks(t, behind(img, list), &cleanups, visit);
}
