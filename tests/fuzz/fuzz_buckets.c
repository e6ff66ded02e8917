/*
 * The buckets of the profiles that the runtime keeps, some of whose words were replaced. The
 * input's first byte chooses the kind, the second the Go version; the rest is places and words. The
 * memory does not change between two looks: the reader would wait until it no longer does.
 */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "golayout/view.h"
#include "memory/runtime_buckets.h"

#define BASE 0xc000010000ull
#define BUCKETS 24
#define WORDS 32 /* of a bucket, with its stack and record */
#define DEPTH 3
#define FIRST 16 /* word of the first bucket; before it are the variables */
#define SIZE ((FIRST + BUCKETS * WORDS) * 8)
#define MAX_PATCHES 64

enum { LIST = 0, CYCLE = 3, LOCK = 4 };

static const struct heap_variables variables = {
	.mbuckets = BASE,
	.bbuckets = BASE,
	.xbuckets = BASE,
	.cycle = BASE + 8 * CYCLE,
	.publish_lock = BASE + 8 * LOCK,
};

struct patch {
	uint32_t word;
	uint32_t unused;
	uint64_t value;
};

static uint64_t address_of(size_t i)
{
	return BASE + 8 * (FIRST + i * WORDS);
}

static void make(uint64_t *memory, enum bucket_kind kind)
{
	memset(memory, 0, SIZE);
	memory[LIST] = address_of(BUCKETS - 1);
	memory[CYCLE] = 5 << 1;
	for (size_t i = 0; i < BUCKETS; i++) {
		uint64_t *b = memory + FIRST + i * WORDS;

		b[1] = i ? address_of(i - 1) : 0;
		b[2] = kind;
		b[4] = 16 * i;
		b[5] = DEPTH;
		for (size_t k = 0; k < DEPTH; k++)
			b[6 + k] = 0x401000 + 16 * i + k;
		b[6 + DEPTH] = i;
	}
}

/* Only what belongs to buckets: a lock that is held, or another cycle, is waited for. */
static void apply(uint64_t *memory, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size / sizeof(struct patch) && i < MAX_PATCHES; i++) {
		struct patch p;

		memcpy(&p, data + i * sizeof(p), sizeof(p));
		memory[FIRST + p.word % (BUCKETS * WORDS)] = p.value;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t memory[SIZE / 8];
	const struct target_range range = {BASE, SIZE, memory};
	_cleanup_runtime_buckets_ struct runtime_buckets b = {0};
	_cleanup_target_ struct target *t = NULL;
	struct buckets_wanted wanted;
	struct golayout lay;
	int minor;

	if (size < 8)
		return 0;
	minor = GOLAYOUT_MIN_MINOR + data[1] % (GOLAYOUT_MAX_MINOR - GOLAYOUT_MIN_MINOR + 1);
	lay = (struct golayout){.minor = minor, .n = *golayout_table(minor, 99)};
	wanted = (struct buckets_wanted){.kind = 1 + data[0] % 3, .up_to_now = data[2] & 1};
	make(memory, wanted.kind);
	apply(memory, data + 8, size - 8);
	fuzz_require(!target_open_memory(&range, 1, &t));
	if (error_dropped(runtime_buckets_read(t, &lay, &variables, &wanted, &b)))
		return 0;
	fuzz_accepted += b.count > 0;
	fuzz_require(b.count <= BUCKETS * WORDS);
	for (size_t i = 0; i < b.count; i++)
		fuzz_require(b.items[i].first + b.items[i].depth <= b.pc_count);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (uint8_t kind = 0; kind < 3; kind++) {
		for (uint8_t minor = 0; minor <= GOLAYOUT_MAX_MINOR - GOLAYOUT_MIN_MINOR;
		     minor += 2) {
			uint8_t seed[8 + 8 * sizeof(struct patch)] = {kind, minor, minor & 1};

			emit(arg, seed, 8);
			for (uint32_t i = 0; i < 8; i++) {
				/* Counters, behind the stack. */
				const struct patch p = {i * WORDS + 6 + DEPTH + i % 4, 0, i};

				memcpy(seed + 8 + i * sizeof(p), &p, sizeof(p));
			}
			emit(arg, seed, sizeof(seed));
		}
	}
}
