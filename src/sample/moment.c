#include "sample/moment.h"

#include <string.h>

#define MIN_TOPHASH 5 /* runtime/map.go: smaller ones mark slots that are empty or have moved */

bool moment_is_whole(const struct moment *m, size_t size)
{
	if (size < offsetof(struct moment, head))
		return false;
	if (m->parked_size > sizeof(m->parked))
		return false;
	if (m->stage == MOMENT_NOTHING)
		return true;
	return size >= offsetof(struct moment, text) &&
	       m->text_size <= size - offsetof(struct moment, text) &&
	       m->text_size <= sizeof(m->text);
}

/* A string's pointer and length, and where in `text` its bytes are. */
struct strings {
	const struct moment *m;
	size_t used; /* of the text */
	struct target_range *ret;
	size_t count;
	bool ended; /* the text has no more */
};

static void add_piece(struct strings *s, uint64_t address, size_t size, const void *bytes)
{
	if (size)
		s->ret[s->count++] = (struct target_range){address, size, (void *)bytes};
}

static void add_string(struct strings *s, const uint64_t *string)
{
	size_t size = string[1] < MOMENT_STRING ? string[1] : MOMENT_STRING;

	if (s->ended || size > s->m->text_size - s->used) {
		s->ended = true;
		return;
	}
	add_piece(s, string[0], size, s->m->text + s->used);
	s->used += size;
}

static void add_slice(struct strings *s, uint64_t labels)
{
	const struct moment *m = s->m;
	size_t count = m->head[1] < MOMENT_LABELS ? m->head[1] : MOMENT_LABELS;

	add_piece(s, labels, 24, m->head);
	if (m->stage < MOMENT_LIST)
		return;
	add_piece(s, m->head[0], count * 32, m->list);
	for (size_t i = 0; i < 2 * count; i++)
		add_string(s, m->list + 2 * i);
}

static void add_map(struct strings *s, uint64_t labels)
{
	const struct moment *m = s->m;
	const uint8_t *tophash = (const uint8_t *)m->list;

	add_piece(s, labels, 8, m->head);
	add_piece(s, m->head[0], 48, m->head + 1);
	if (m->stage < MOMENT_LIST)
		return;
	add_piece(s, m->head[3], sizeof(m->list), m->list);
	for (size_t i = 0; i < MOMENT_LABELS; i++) {
		if (tophash[i] < MIN_TOPHASH)
			continue;
		add_string(s, m->list + 1 + 2 * i);
		add_string(s, m->list + 1 + 2 * (MOMENT_LABELS + i));
	}
}

size_t moment_label_pieces(const struct moment *m, uint64_t labels, bool maps,
			   struct target_range *ret)
{
	struct strings s = {.m = m, .ret = ret};

	if (m->stage < MOMENT_HEAD)
		return 0;
	if (maps)
		add_map(&s, labels);
	else
		add_slice(&s, labels);
	return s.count;
}
