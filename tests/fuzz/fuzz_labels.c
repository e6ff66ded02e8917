/* Memory in which goroutines' labels are, of either kind. */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "labels/label_sets.h"
#include "liar.h"
#include "made_program.h"

#define MAX_POINTERS 32

struct header {
	uint8_t maps;
	uint8_t count; /* of pointers to labels */
	uint16_t lies; /* bytes of them, at the input's end */
	uint32_t unused;
	uint64_t pointers[MAX_POINTERS];
};

static void check(const struct label_sets *sets, const uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct label_set set = label_sets_get(sets, ids[i]);

		fuzz_require(ids[i] == LABELS_TORN || ids[i] == LABELS_NONE ||
			     ids[i] < sets->count);
		fuzz_require(set.count <= LABELS_MAX_COUNT);
		fuzz_accepted += set.count > 0;
		for (uint32_t k = 0; k < set.count; k++)
			fuzz_require(
				strlen(intern_get(&sets->strings, set.labels[k].key)) +
					strlen(intern_get(&sets->strings, set.labels[k].value)) <=
				2 * LABELS_MAX_STRING);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_target_ struct target *truth = NULL;
	struct label_sets sets = {0};
	uint32_t ids[MAX_POINTERS];
	struct target_range range;
	size_t count, lies;
	struct liar liar;
	struct header h;

	if (size < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	sets.maps = h.maps & 1;
	count = h.count % (MAX_POINTERS + 1);
	size -= sizeof(h);
	lies = h.lies < size ? h.lies : size;
	range = (struct target_range){PROGRAM_HEAP, size - lies, (void *)(data + sizeof(h))};
	fuzz_require(!target_open_memory(&range, 1, &truth));
	liar_init(&liar, truth, data + sizeof(h) + size - lies, lies);
	for (int i = 0; i < 2; i++) {
		fuzz_require(!label_sets_read(&sets, &liar.base, h.pointers, count, ids));
		check(&sets, ids, count);
	}
	label_sets_release(&sets);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (int i = 0; i < 4; i++) {
		struct made_program p = {.minor = i & 1 ? 23 : 27};
		struct header h = {.maps = i & 1, .count = 3};
		uint8_t seed[sizeof(h) + 0x400 + 64] = {0};

		made_program_init(&p);
		h.pointers[0] = h.pointers[2] = PROGRAM_HEAP + 0x100;
		h.lies = i & 2 ? 64 : 0;
		memset(seed + sizeof(seed) - h.lies, 0xff, h.lies);
		memcpy(seed, &h, sizeof(h));
		memcpy(seed + sizeof(h), p.heap, 0x400);
		emit(arg, seed, sizeof(seed));
		made_program_release(&p);
	}
}
