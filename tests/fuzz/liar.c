#include "liar.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * One lie. `skip`: so many words are true before it; then `run` words are lies, of a kind. A
 * pointer is sent to another place of the picture by `value`.
 */
struct lie {
	uint16_t skip;
	uint8_t run;
	uint8_t kind;
	uint32_t pointer;
	uint64_t value;
};

_Static_assert(sizeof(struct lie) == 16, "as liar.h says");

enum kind { LIE_FLIP, LIE_ADD, LIE_SET, LIE_POINTER, LIE_SMALL, LIE_FAULT, LIE_KINDS };

static bool next_lie(struct liar *l, struct lie *ret)
{
	if (l->lies.size < sizeof(*ret))
		return false;
	if (l->at + sizeof(*ret) > l->lies.size)
		l->at = 0;
	memcpy(ret, l->lies.data + l->at, sizeof(*ret));
	l->at += sizeof(*ret);
	return true;
}

static uint64_t lie_about(const struct lie *lie, uint64_t word)
{
	switch ((enum kind)(lie->kind % LIE_KINDS)) {
	case LIE_FLIP:
		return word ^ 1ull << lie->value % 64;
	case LIE_ADD:
		return word + lie->value;
	case LIE_POINTER:
		return (word & ~0xffffull) | (lie->pointer & 0xffff);
	case LIE_SMALL:
		return lie->value & 0xff;
	default:
		return lie->value;
	}
}

/* False: this read fails. */
static bool spoil(struct liar *l, uint8_t *bytes, size_t size)
{
	struct lie lie;
	size_t i = 0, words = size / 8;

	while (next_lie(l, &lie)) {
		if (lie.kind % LIE_KINDS == LIE_FAULT)
			return lie.skip > words - i;
		i += lie.skip;
		for (size_t k = 0; k <= lie.run && i < words; k++, i++) {
			uint64_t word;

			memcpy(&word, bytes + 8 * i, sizeof(word));
			word = lie_about(&lie, word);
			memcpy(bytes + 8 * i, &word, sizeof(word));
		}
		if (i >= words)
			break;
	}
	return true;
}

static struct error *liar_read(struct target *t, const struct target_range *ranges, size_t count,
			       void *packed, size_t *ret_done)
{
	struct liar *l = (struct liar *)t;
	uint8_t *out = packed;
	size_t i;

	l->reads++;
	for (i = 0; i < count; i++) {
		void *buffer = packed ? out : ranges[i].buffer;
		struct error *err =
			target_read(l->truth, ranges[i].address, buffer, ranges[i].size);

		if (error_dropped(err) || !spoil(l, buffer, ranges[i].size))
			break;
		l->bytes += ranges[i].size;
		if (packed)
			out += ranges[i].size;
	}
	*ret_done = i;
	return NULL;
}

static struct error *liar_check(struct target *t)
{
	return NULL;
}

static struct error *liar_threads(struct target *t, struct target_thread **ret, size_t *ret_count)
{
	struct liar *l = (struct liar *)t;

	return target_threads(l->truth, ret, ret_count);
}

static struct error *liar_maps(struct target *t, struct target_maps *ret)
{
	struct liar *l = (struct liar *)t;

	return target_maps(l->truth, ret);
}

static const struct target_ops liar_ops = {
	.read = liar_read,
	.check = liar_check,
	.maps = liar_maps,
	.threads = liar_threads,
};

void liar_init(struct liar *l, struct target *truth, const uint8_t *lies, size_t size)
{
	*l = (struct liar){
		.base = {.ops = &liar_ops, .exe_name = "liar"},
		.truth = truth,
		.lies = {lies, size},
	};
}
