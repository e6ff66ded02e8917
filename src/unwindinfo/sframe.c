#include "unwindinfo/sframe.h"

#include <string.h>

#define MAGIC 0xdee2
#define VERSION 2
#define SORTED 1
#define FUNCTION_SIZE 20 /* of the description of a function */

enum { ABI_ARM64 = 2, ABI_AMD64 = 3 };
enum { AMD64_RA = -8, AMD64_FP = -16 };

/* How many bytes a row's address has, and each of its offsets. */
enum { ADDRESS_1, ADDRESS_2, ADDRESS_4 };
enum { OFFSET_1, OFFSET_2, OFFSET_4 };

/* The info byte of a row. */
#define BASE_SP 1
#define OFFSET_COUNT(n) ((n) << 1)
#define OFFSET_SIZE(n) ((n) << 5)

static void put(struct strbuf *sb, uint64_t value, size_t size)
{
	strbuf_add(sb, &value, size);
}

static size_t size_of(unsigned int code)
{
	return (size_t)1 << code;
}

static unsigned int address_code(uint64_t size)
{
	return size <= UINT8_MAX ? ADDRESS_1 : size <= UINT16_MAX ? ADDRESS_2 : ADDRESS_4;
}

/* Each offset and its negative have to fit. */
static unsigned int offset_code(int32_t most)
{
	return most <= INT8_MAX ? OFFSET_1 : most <= INT16_MAX ? OFFSET_2 : OFFSET_4;
}

/* The offsets from the CFA: its own from SP, then where the return address is, if that is not at
 * the same place everywhere, then where the frame pointer is. */
static size_t offsets_of(enum machine machine, const struct frame_row *row, int32_t ret[3])
{
	size_t n = 0;

	ret[n++] = row->delta + (machine == MACHINE_AMD64 ? 8 : 0);
	if (machine == MACHINE_ARM64 && row->delta)
		ret[n++] = -row->delta;
	if (row->fp == FP_SAVED)
		ret[n++] = machine == MACHINE_AMD64 ? AMD64_FP : -row->delta - 8;
	return n;
}

static void put_row(struct sframe *s, const struct frame_row *row, uint64_t start,
		    unsigned int address)
{
	int32_t offsets[3];
	size_t count = offsets_of(s->machine, row, offsets);
	unsigned int size = offset_code(row->delta + 8);

	put(&s->rows, row->address - start, size_of(address));
	put(&s->rows, BASE_SP | OFFSET_COUNT(count) | OFFSET_SIZE(size), 1);
	for (size_t i = 0; i < count; i++)
		put(&s->rows, (uint32_t)offsets[i], size_of(size));
	s->row_count++;
}

/* It describes plain calls alone. */
static bool can_say(const struct go_func *f, const struct frame_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->items[i].delta < 0)
			return false;
	return rows->kind == KIND_PLAIN && rows->end - f->entry <= UINT32_MAX;
}

void sframe_add(struct sframe *s, const struct go_func *f, const struct frame_rows *rows)
{
	unsigned int address = address_code(rows->end - f->entry);
	uint32_t first = s->rows.length, before = s->row_count;

	if (!can_say(f, rows))
		return;
	for (size_t i = 0; i < rows->count; i++)
		put_row(s, &rows->items[i], f->entry, address);
	put(&s->functions, f->entry - s->text, 4);
	put(&s->functions, rows->end - f->entry, 4);
	put(&s->functions, first, 4);
	put(&s->functions, s->row_count - before, 4);
	put(&s->functions, address, 1);
	put(&s->functions, 0, 3);
	s->function_count++;
}

/* Makes addresses in the text addresses from the section on. */
static void move_functions(struct sframe *s, uint64_t address)
{
	for (size_t at = 0; at < s->functions.length; at += FUNCTION_SIZE) {
		int64_t distance = s->text - address;
		uint32_t from_text;

		memcpy(&from_text, s->functions.data + at, sizeof(from_text));
		distance += from_text;
		s->too_far |= distance != (int32_t)distance;
		from_text = distance;
		memcpy(s->functions.data + at, &from_text, sizeof(from_text));
	}
}

bool sframe_finish(struct sframe *s, uint64_t address, struct strbuf *ret)
{
	bool is_amd64 = s->machine == MACHINE_AMD64;

	if (s->functions.failed || s->rows.failed)
		return false;
	move_functions(s, address);
	put(ret, MAGIC, 2);
	put(ret, VERSION, 1);
	put(ret, SORTED, 1);
	put(ret, is_amd64 ? ABI_AMD64 : ABI_ARM64, 1);
	put(ret, 0, 1);
	put(ret, is_amd64 ? (uint8_t)AMD64_RA : 0, 1);
	put(ret, 0, 1);
	put(ret, s->function_count, 4);
	put(ret, s->row_count, 4);
	put(ret, s->rows.length, 4);
	put(ret, 0, 4);
	put(ret, s->functions.length, 4);
	strbuf_add(ret, s->functions.data, s->functions.length);
	strbuf_add(ret, s->rows.data, s->rows.length);
	return !ret->failed;
}

void sframe_release(struct sframe *s)
{
	strbuf_release(&s->functions);
	strbuf_release(&s->rows);
}
