#include "memory/bucket_stacks.h"

#include <math.h>
#include <string.h>

#include "base/array.h"

#define MOST_INLINED 64 /* calls at one place */

static bool is_runtime(const char *function, int minor)
{
	return !strncmp(function, "runtime.", 8) ||
	       (minor >= 24 && !strncmp(function, "internal/runtime/", 17));
}

/* A word that takes nothing else's meaning. */
static uint64_t word_of(uint64_t pc)
{
	return stack_pc_is_pseudo(pc) || pc & (STACK_PC_EXACT | STACK_PC_IN_KERNEL)
		       ? STACK_PC_UNKNOWN
		       : pc;
}

/* runtime.FuncForPC() of the return address, which is the innermost function at this very byte. */
static bool is_hidden(const struct pclntab *functions, uint64_t pc, int minor)
{
	struct go_frame frames[MOST_INLINED];

	return word_of(pc) == pc &&
	       pclntab_frames(functions, pc | STACK_PC_EXACT, frames, ARRAY_SIZE(frames)) &&
	       is_runtime(frames[0].function, minor);
}

static size_t first_shown(const struct pclntab *functions, const uint64_t *pcs, size_t depth,
			  int minor)
{
	for (size_t i = 0; i < depth; i++)
		if (!is_hidden(functions, pcs[i], minor))
			return i;
	return 0;
}

/* Whether `outer` is the return address that an expanded stack has for a call that was inlined
 * around the one at `inner`; a wrapper between them has none. */
static bool is_inlined_around(const struct pclntab *functions, uint64_t inner, uint64_t outer)
{
	uint64_t pc = pclntab_inlined_at(functions, inner);

	for (size_t i = 0; i < MOST_INLINED && pc && pc + 1 != outer; i++)
		pc = pclntab_inlined_at(functions, pc | STACK_PC_EXACT);
	return pc && pc + 1 == outer;
}

size_t bucket_stack_words(const struct pclntab *functions, const uint64_t *pcs, size_t depth,
			  bool hides_runtime, int minor, uint64_t *ret)
{
	size_t i = hides_runtime ? first_shown(functions, pcs, depth, minor) : 0, n = 0;

	while (i < depth) {
		uint64_t word = word_of(pcs[i++]);

		ret[n++] = word;
		while (i < depth && word != STACK_PC_UNKNOWN &&
		       is_inlined_around(functions, word, pcs[i]))
			word = pcs[i++];
	}
	return n;
}

static int64_t to_int64(double value)
{
	if (!(value > -0x1p63))
		return INT64_MIN;
	return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

void bucket_unsample(int64_t objects, int64_t bytes, int64_t rate, int64_t *ret_objects,
		     int64_t *ret_bytes)
{
	double scale;

	*ret_objects = objects && bytes ? objects : 0;
	*ret_bytes = objects && bytes ? bytes : 0;
	if (!*ret_objects || rate <= 1)
		return;
	scale = 1 / (1 - exp(-((double)bytes / (double)objects) / (double)rate));
	*ret_objects = to_int64((double)objects * scale);
	*ret_bytes = to_int64((double)bytes * scale);
}
