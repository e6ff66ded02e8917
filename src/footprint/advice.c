/* A sentence on what would give memory back: the largest amount that something gives. */
#include "base/array.h"
#include "footprint/amounts.h"
#include "footprint/footprint.h"

/* Less than this share of the resident memory is not worth a change. */
#define LEAST_PART 20
/* What GOGC would be set to, in percent. */
#define LOWER_GOGC 50

static uint64_t node_bytes(const struct footprint *f, const char *const *path, size_t depth)
{
	uint32_t node = memory_tree_find(&f->tree, path, depth);

	return node == TREE_NONE ? 0 : f->tree.items[node].bytes;
}

#define NODE(f, ...)                                      \
	node_bytes(f, (const char *const[]){__VA_ARGS__}, \
		   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* How much lower the goal would be. */
static uint64_t gain_of_lower_gogc(const struct gc_pacing *gc)
{
	uint64_t lower = gc->marked + gc->marked / 100 * LOWER_GOGC;

	if (!gc->known || gc->percent <= LOWER_GOGC || gc->is_limited || gc->goal > GC_MOST_GOAL)
		return 0;
	return gc->goal > lower ? gc->goal - lower : 0;
}

static uint64_t unused_stacks(const struct footprint *f)
{
	return NODE(f, "stacks of goroutines", "unused parts of goroutines' stacks") +
	       NODE(f, "stacks of goroutines", "free, for new goroutines");
}

static void advise(struct strbuf *sb, size_t which, const struct footprint *f, const char *amount)
{
	switch (which) {
	case 0:
		strbuf_addf(sb,
			    "%s of the heap are free and resident: runtime/debug.FreeOSMemory() "
			    "returns them at once, and the runtime does so within minutes.",
			    amount);
		break;
	case 1:
		strbuf_addf(sb,
			    "GOGC=%d instead of %d would lower the goal of the heap by %s; the "
			    "collector would run more often.",
			    LOWER_GOGC, f->gc.percent, amount);
		break;
	case 2:
		strbuf_addf(sb,
			    "%s are free slots in spans that other objects keep; only the end of "
			    "those objects, or a restart, gives them back.",
			    amount);
		break;
	case 3:
		strbuf_addf(sb,
			    "%s of stacks are not in use: the next collection halves a stack of "
			    "which less than a quarter is used, and frees those of ended "
			    "goroutines.",
			    amount);
		break;
	case 4:
		strbuf_addf(sb,
			    "%s are garbage that is not swept yet; the runtime sweeps it when it "
			    "needs memory, or in the background.",
			    amount);
		break;
	case 5:
		strbuf_addf(sb,
			    "%s are pages of mapped files; the kernel takes them back when it "
			    "needs memory.",
			    amount);
		break;
	}
}

bool footprint_add_advice(const struct footprint *f, struct strbuf *sb)
{
	const uint64_t gains[] = {
		f->idle,
		gain_of_lower_gogc(&f->gc),
		NODE(f, "Go heap", "free slots in spans (fragmentation)"),
		unused_stacks(f),
		NODE(f, "Go heap", "garbage that is not swept yet"),
		NODE(f, "mapped files"),
	};
	char amount[16];
	size_t best = 0;

	for (size_t i = 1; i < ARRAY_SIZE(gains); i++)
		if (gains[i] > gains[best])
			best = i;
	if (gains[best] > f->resident / LEAST_PART)
		advise(sb, best, f, amount_text(gains[best], amount));
	else
		strbuf_addf(sb,
			    "Nothing but less use gives much back: %s are objects; gospect heap "
			    "shows who allocated them.",
			    amount_text(NODE(f, "Go heap", "objects"), amount));
	return !sb->failed;
}
