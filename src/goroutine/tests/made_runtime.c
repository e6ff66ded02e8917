#include "tests/made_runtime.h"

#include <stdlib.h>
#include <string.h>

#define ALL 0xc000a00000ull
#define ALL_LENGTH 0x700000ull
#define ALL_POINTER 0x700008ull
#define REASONS 0x700100ull
#define REASON_TEXT 0x700200ull

static const char reason_text[] = "chan receivesleep";

static const struct made_function functions[MADE_FUNCTIONS] = {
	[MADE_LEAF] = {"main.leaf", NULL, 16, 0, 0},
	[MADE_OTHER] = {"main.other", NULL, 16, 0, 0},
	[MADE_ROOT] = {"main.root", NULL, 8, 0, 0},
	[MADE_GOEXIT] = {"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
	[MADE_SYSTEM] = {"runtime.bgsweep", NULL, 8, 0, 0},
};

struct region {
	uint64_t address;
	size_t size;
	void *bytes;
};

static void *find(struct made_runtime *r, uint64_t address, size_t size)
{
	struct region regions[] = {
		{MADE_G, sizeof(r->g), r->g},
		{MADE_M, sizeof(r->m), r->m},
		{ALL, sizeof(r->allg), r->allg},
		{ALL_LENGTH, 8, &r->all_length},
		{ALL_POINTER, 8, &r->all_pointer},
		{REASONS, sizeof(r->reasons), r->reasons},
		{REASON_TEXT, sizeof(reason_text), (void *)reason_text},
	};

	for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]); i++)
		if (address >= regions[i].address && size <= regions[i].size &&
		    address - regions[i].address <= regions[i].size - size)
			return (char *)regions[i].bytes + (address - regions[i].address);
	return NULL;
}

/* Byte by byte, so that a range may span several stacks and the holes between them. */
static bool copy(struct made_runtime *r, uint64_t address, size_t size, uint8_t *to)
{
	void *found = find(r, address, size);

	if (found) {
		memcpy(to, found, size);
		return true;
	}
	for (size_t k = 0; k < size; k++) {
		uint64_t at = address + k - MADE_STACK;

		if (at >= MADE_MAX * 8192ull)
			return false;
		to[k] = at % 8192 < 2048 ? r->stack[at / 8192][at % 8192] : 0;
	}
	return true;
}

static struct error *made_read(struct target *t, const struct target_range *ranges, size_t count,
			       void *packed, size_t *ret_done)
{
	struct made_runtime *r = (struct made_runtime *)t;
	uint8_t *to = packed;
	size_t i;

	r->reads++;
	for (i = 0; i < count; i++) {
		if (r->before_read)
			r->before_read(r, ranges[i].address, ranges[i].size);
		if (!copy(r, ranges[i].address, ranges[i].size, packed ? to : ranges[i].buffer))
			break;
		if (packed)
			to += ranges[i].size;
	}
	*ret_done = i;
	return NULL;
}

static struct error *made_check(struct target *t)
{
	return NULL;
}

static struct error *made_threads(struct target *t, struct target_thread **ret, size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	return NULL;
}

static const struct target_ops made_ops = {.read = made_read,
					   .check = made_check,
					   .threads = made_threads};

void made_set_u64(struct made_runtime *r, size_t i, int32_t field, uint64_t value)
{
	memcpy(r->g[i] + field, &value, sizeof(value));
}

void made_set_u8(struct made_runtime *r, size_t i, int32_t field, uint8_t value)
{
	r->g[i][field] = value;
}

void made_set_status(struct made_runtime *r, size_t i, uint32_t status)
{
	memcpy(r->g[i] + r->lay.n.g_status, &status, sizeof(status));
}

static void put_word(struct made_runtime *r, size_t i, size_t at, uint64_t value)
{
	memcpy(r->stack[i] + at, &value, sizeof(value));
}

void made_park(struct made_runtime *r, size_t i, bool other)
{
	size_t sp = 2048 - 40;

	put_word(r, i, sp + 16, made_pc(MADE_ROOT, false));
	put_word(r, i, sp + 32, MADE_TEXT + MADE_GOEXIT * MADE_SIZE + 1);
	made_set_u64(r, i, r->lay.n.g_sched_sp, MADE_STACK + i * 8192 + sp);
	made_set_u64(r, i, r->lay.n.g_sched_pc, made_pc(other ? MADE_OTHER : MADE_LEAF, false));
	made_set_status(r, i, G_WAITING);
	made_set_u8(r, i, r->lay.n.g_waitreason, 1);
	r->g[i][r->lay.n.g_tracking_seq]++;
}

static void put_reason(struct made_runtime *r, size_t i, size_t at, size_t length)
{
	uint64_t header[2] = {REASON_TEXT + at, length};

	memcpy(r->reasons[i], header, sizeof(header));
}

static void make_goroutine(struct made_runtime *r, size_t i)
{
	const struct golayout_numbers *n = &r->lay.n;

	r->allg[i] = MADE_G + i * 512;
	made_set_u64(r, i, n->g_goid, i + 1);
	made_set_u64(r, i, n->g_sched_g, r->allg[i]);
	made_set_u64(r, i, n->g_stack_lo, MADE_STACK + i * 8192);
	made_set_u64(r, i, n->g_stack_hi, MADE_STACK + i * 8192 + 2048);
	made_set_u64(r, i, n->g_startpc, MADE_TEXT + MADE_ROOT * MADE_SIZE);
	made_set_u64(r, i, n->g_gopc, made_pc(MADE_ROOT, false));
	made_park(r, i, false);
}

void made_runtime_init(struct made_runtime *r, int minor, size_t count)
{
	memset(r, 0, sizeof(*r));
	made_functions_init(&r->made, PCLNTAB_GO120, functions, MADE_FUNCTIONS);
	r->base.ops = &made_ops;
	r->base.exe_name = (char *)"made";
	r->img.functions = r->made.tab;
	r->img.info.minor = minor;
	r->lay.minor = minor;
	r->lay.n = *golayout_table(minor, 0);
	r->lay.v.allglen = ALL_LENGTH;
	r->lay.v.allgptr = ALL_POINTER;
	r->lay.v.wait_reason_strings = REASONS;
	r->lay.v.wait_reason_count = 3;
	r->all_pointer = ALL;
	r->all_length = count;
	put_reason(r, 1, 0, 12);
	put_reason(r, 2, 12, 5);
	for (size_t i = 0; i < count; i++)
		make_goroutine(r, i);
}

void made_runtime_release(struct made_runtime *r)
{
	made_functions_release(&r->made);
}
