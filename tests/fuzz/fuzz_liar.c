/*
 * A process whose memory changes at each read, in any word: through all of `gospect dump`, twice,
 * so that data remembered from the first pass meets other values. The input is the changes; the
 * first byte chooses the process.
 */
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "liar.h"
#include "made_program.h"
#include "showing.h"

/* A look at a handful of goroutines needs no more, whatever they say. */
#define MAX_READS 200000
#define MAX_BYTES (1ull << 30)

static const struct kind {
	int minor;
	enum machine machine;
	bool pie;
} kinds[] = {{27, MACHINE_AMD64, true},
	     {17, MACHINE_AMD64, false},
	     {23, MACHINE_ARM64, false},
	     {26, MACHINE_ARM64, true}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct process {
	struct made_program program;
	struct target *memory;
	struct image *img;
	struct golayout *lay;
};

static const struct process *process_of(size_t kind)
{
	static struct process processes[KINDS];
	struct process *p = &processes[kind];
	struct target_range ranges[] = {{PROGRAM_DATA, sizeof(p->program.data), p->program.data},
					{PROGRAM_HEAP, sizeof(p->program.heap), p->program.heap}};
	char path[32];
	bool starting;

	if (p->lay)
		return p;
	p->program = (struct made_program){.minor = kinds[kind].minor,
					   .machine = kinds[kind].machine,
					   .pie = kinds[kind].pie,
					   .sections = true};
	made_program_init(&p->program);
	snprintf(path, sizeof(path), "/proc/self/fd/%d",
		 bytes_to_fd(p->program.file.data, p->program.file.length));
	fuzz_require(!target_open_memory(ranges, 2, &p->memory));
	fuzz_require(!image_open_file(path, &p->img));
	fuzz_require(!golayout_open(p->img, p->memory, &p->lay));
	fuzz_require(!golayout_validate(p->lay, p->img, p->memory, &starting));
	fuzz_require(show(p->memory, p->img, p->lay) == 4);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct process *p;
	struct liar liar;
	bool starting;

	if (size < 8)
		return 0;
	p = process_of(data[0] % KINDS);
	liar_init(&liar, p->memory, data + 8, size - 8);
	if (data[1] & 1)
		error_destroy(golayout_validate(p->lay, p->img, &liar.base, &starting));
	fuzz_accepted += show(&liar.base, p->img, p->lay) > 0;
	show(&liar.base, p->img, p->lay);
	fuzz_require(liar.reads < MAX_READS && liar.bytes < MAX_BYTES);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (uint8_t kind = 0; kind < KINDS; kind++) {
		uint8_t seed[8 + 64 * 16] = {kind, kind & 1};

		/* Few lies at first: every 40th word or so. */
		for (uint16_t i = 0; i < 64; i++) {
			uint8_t *lie = seed + 8 + 16 * i;
			uint16_t skip = 23 + 7 * i;

			memcpy(lie, &skip, sizeof(skip));
			lie[3] = i % 5;
			lie[4] = 8 * i;
			lie[8] = i;
		}
		emit(arg, seed, sizeof(seed));
		emit(arg, seed, 8);
	}
}
