/* A process with a forged stale agent: the head of the code, a claim. */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "inject/claim.h"
#include "inject/stale_agent.h"

#define CODE_AT 0x10000000ull
#define DATA_AT 0x20000000ull
#define SLOTS_AT (DATA_AT + 4096 + AGENT_SLOT_OFFSET)
#define MAPS 6

struct input {
	struct claim_page claim;
	uint64_t data_bytes;
	uint64_t trampolines;
	struct code_head head;
};

static void check(const struct stale_agent *l, const struct input *in)
{
	const struct code_head *h = &l->head;
	uint64_t end = DATA_AT + in->data_bytes;

	fuzz_require(l->range_count <= MAPS);
	if (!l->has_head)
		return;
	fuzz_accepted++;
	fuzz_require(code_head_bytes(h) <= h->stub_bytes);
	fuzz_require(!h->control || h->control - CODE_AT < h->code_bytes);
	fuzz_require(
		!h->slots ||
		(h->slots >= DATA_AT && h->slots <= h->fallback_slots && h->fallback_slots < end &&
		 end - h->fallback_slots >= AGENT_FALLBACK_SLOTS * (uint64_t)AGENT_SLOT_BYTES));
	for (unsigned int i = 0; i < h->site_count; i++)
		fuzz_require(!h->sites[i].address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_stale_agent_ struct stale_agent l = {0};
	static const struct originals none;
	struct input in = {0};
	struct target_map items[MAPS];
	struct target_maps maps = {items, MAPS, MAPS};
	struct target_range memory[2] = {{0x1000, sizeof(in.claim), &in.claim},
					 {CODE_AT, sizeof(in.head), &in.head}};

	memcpy(&in, data, size < sizeof(in) ? size : sizeof(in));
	in.data_bytes %= 1ull << 40;
	items[0] = (struct target_map){0x1000, 0x2000, .path = "/memfd:" CLAIM_NAME};
	items[1] = (struct target_map){CODE_AT, CODE_AT + 0x8000, .path = "/memfd:" CODE_NAME};
	items[2] = (struct target_map){CODE_AT + 0x8000, CODE_AT + 0x9000, .path = ""};
	items[3] =
		(struct target_map){DATA_AT, DATA_AT + in.data_bytes, .path = "/memfd:" DATA_NAME};
	items[4] = (struct target_map){in.trampolines, in.trampolines + CODE_PAGE_BYTES,
				       .offset = 0x9000, .path = "/memfd:" CODE_NAME};
	items[5] = (struct target_map){1ull << 46, (1ull << 46) + 4096, .path = "/bin/true"};
	fuzz_require(!target_open_memory(memory, 2, &t));
	if (!error_dropped(stale_agent_find_in_maps(t, &none, &maps, 0, &l)))
		check(&l, &in);
	return 0;
}

static struct input made(unsigned int sites)
{
	struct input in = {.data_bytes = 64 << 20, .trampolines = 0x60000000};
	struct code_head *h = &in.head;

	*h = (struct code_head){.magic = CODE_MAGIC,
				.version = CODE_VERSION,
				.tracer = 1,
				.code = CODE_AT,
				.code_bytes = 0x9000,
				.stub_bytes = 0x8000,
				.agent = CODE_AT + 0x8000,
				.control = CODE_AT + 0x8000,
				.slots = SLOTS_AT,
				.fallback_slots = SLOTS_AT + 16 * AGENT_SLOT_BYTES,
				.trampolines = {0x60000000},
				.site_count = sites};
	for (unsigned int i = 0; i < sites; i++)
		h->sites[i] = (struct code_site){.stub = CODE_AT + 4096,
						 .jump = i & 1 ? CODE_AT + 4096 : in.trampolines,
						 .length = 5};
	return in;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (unsigned int sites = 0; sites < 64; sites += 21) {
		struct input in = made(sites);

		emit(arg, &in, sizeof(in));
	}
}
