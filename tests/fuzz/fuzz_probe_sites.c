/* Machine code in which probe sites are looked for. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "hooks/probe_site.h"

#define AT 0x401000ull

struct header {
	uint8_t arguments; /* PLACE_* */
	uint8_t past_calls;
	uint8_t nth;
	uint8_t unused;
	uint32_t offset; /* of a load */
	uint64_t called;
};

static void check(const struct probe_site *site, size_t size)
{
	uint64_t at = site->address - AT;

	fuzz_accepted++;
	fuzz_require(at < size && site->length <= size - at);
	fuzz_require(site->length >= SITE_JUMP_BYTES - 1 && site->length <= SITE_MAX_BYTES);
	fuzz_require(!site->relative || site->relative + 4 <= site->length);
}

static void look_for_ends(const uint8_t *code, size_t size)
{
	struct probe_site_ends ends = {0};

	if (error_dropped(
		    probe_site_ends(AT, code, size, SITE_BEGIN | SITE_RETURNS, SITE_FOURTH, &ends)))
		return;
	check(&ends.begin, size);
	for (size_t i = 0; i < ends.return_count; i++)
		check(&ends.returns[i], size);
	free(ends.returns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct header h;
	struct probe_site site;

	if (size < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	data += sizeof(h);
	size -= sizeof(h);
	if (!error_dropped(
		    probe_site_at_body("f", AT, data, size, h.arguments, h.past_calls, &site)))
		check(&site, size);
	if (!error_dropped(probe_site_at_load("f", AT, data, size, h.offset, &site)))
		check(&site, size);
	if (!error_dropped(
		    probe_site_before_call("f", AT, data, size, h.called, h.nth % 4 + 1, &site)))
		check(&site, size);
	look_for_ends(data, size);
	return 0;
}

/* push rbp; mov rbp, rsp; sub rsp, 32; mov [rsp+16], rax; cmp dword [rip+256], 7; je +5; call +0;
 * mov rax, [rsp+16]; add rsp, 32; pop rbp; ret */
static const uint8_t now[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0x48, 0x89,
			      0x44, 0x24, 0x10, 0x83, 0x3d, 0,    1,    0,    0,    7,
			      0x74, 5,    0xe8, 0,    0,    0,    0,    0x48, 0x8b, 0x44,
			      0x24, 0x10, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};
/* cmp rsp, [r14+16]; jbe; sub rsp, 64; mov [rsp+56], rbp; lea rbp, [rsp+56]; mov [rsp+72], rax;
 * mov rbp, [rsp+56]; add rsp, 64; ret; call; jmp to the begin */
static const uint8_t before[] = {0x49, 0x3b, 0x66, 0x10, 0x76, 0x1d, 0x48, 0x83, 0xec, 0x40, 0x48,
				 0x89, 0x6c, 0x24, 0x38, 0x48, 0x8d, 0x6c, 0x24, 0x38, 0x48, 0x89,
				 0x44, 0x24, 0x48, 0x48, 0x8b, 0x6c, 0x24, 0x38, 0x48, 0x83, 0xc4,
				 0x40, 0xc3, 0xe8, 0,    0,    0,    0,    0xeb, 0xd6};

static void emit_code(fuzz_emit *emit, void *arg, const uint8_t *code, size_t size)
{
	struct header h = {.arguments = SITE_FIRST, .nth = 0, .offset = 16, .called = AT + 27};
	uint8_t seed[sizeof(h) + 64] = {0};

	memcpy(seed, &h, sizeof(h));
	memcpy(seed + sizeof(h), code, size);
	emit(arg, seed, sizeof(h) + size);
	seed[0] |= SITE_RELATIVE;
	emit(arg, seed, sizeof(h) + size);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	emit_code(emit, arg, now, sizeof(now));
	emit_code(emit, arg, before, sizeof(before));
}
