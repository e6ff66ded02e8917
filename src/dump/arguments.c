#include "dump/arguments.h"

#include <string.h>

/* internal/abi/symtab.go: bytes of the format that are no offset. */
enum {
	ARGUMENT_BEYOND = 0xfb, /* its offset has no byte */
	ARGUMENTS_MORE = 0xfc,
	AGGREGATE_END = 0xfd,
	AGGREGATE_START = 0xfe,
	ARGUMENTS_END = 0xff,
};

/* The compiler writes less (TraceArgsMaxLen). */
#define MAX_FORMAT 256

static bool load(const struct stack_memory *memory, uint64_t address, uint64_t size, uint64_t *ret)
{
	uint64_t at = address - memory->sp;

	*ret = 0;
	if (size > sizeof(*ret))
		size = sizeof(*ret);
	if (address < memory->sp || memory->size < size || at > memory->size - size)
		return false;
	memcpy(ret, memory->bytes + at, size);
	return true;
}

/* Where a bit is missing the argument counts as saved, as in code without such bits. */
static bool is_saved(const struct argument_info *info, uint8_t offset, uint8_t slot)
{
	uint64_t at;

	if (!info->live.size || info->live_index <= 0 || offset < info->live.data[0])
		return true;
	at = (uint64_t)info->live_index + slot / 8;
	return at >= info->live.size || info->live.data[at] >> slot % 8 & 1;
}

bool arguments_add(struct strbuf *sb, const struct argument_info *info,
		   const struct stack_memory *memory, uint64_t argp)
{
	uint8_t first = info->live.size ? info->live.data[0] : 0xff, slot = 0;
	size_t size = info->format.size < MAX_FORMAT ? info->format.size : MAX_FORMAT;
	const char *comma = "";

	for (size_t i = 0; i < size; i++) {
		uint8_t what = info->format.data[i];
		uint64_t value;

		if (what == ARGUMENTS_END)
			return true;
		if (what != AGGREGATE_END)
			strbuf_adds(sb, comma);
		comma = what == AGGREGATE_START ? "" : ", ";
		switch (what) {
		case AGGREGATE_START:
			strbuf_addc(sb, '{');
			break;
		case AGGREGATE_END:
			strbuf_addc(sb, '}');
			break;
		case ARGUMENTS_MORE:
			strbuf_adds(sb, "...");
			break;
		case ARGUMENT_BEYOND:
			strbuf_addc(sb, '_');
			break;
		default:
			if (++i >= size || !load(memory, argp + what, info->format.data[i], &value))
				return false;
			strbuf_adds(sb, "0x");
			strbuf_addx(sb, value);
			if (!is_saved(info, what, slot))
				strbuf_addc(sb, '?');
			slot += what >= first;
		}
	}
	return false;
}
