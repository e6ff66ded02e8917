#include "agent/agent_labels.h"

#include "agent/agent_memory.h"
#include "labels/go_memory.h"

struct slice {
	uint64_t items;
	uint64_t length;
	uint64_t capacity;
};

/* SAME_SIZE: of flags. */
enum { SAME_SIZE = 8, MAX_B = 32 };

struct copy {
	const struct agent_shared *shared;
	uint8_t *at;
	uint8_t *end;
	uint32_t labels;
	uint32_t buckets; /* that may still be looked at */
	struct agent_label_set *set;
};

/* NULL when it may not be read. */
static const void *readable(struct copy *c, uint64_t address, uint64_t size)
{
	const void *found = agent_memory(c->shared, address, size);

	c->set->unread |= !found;
	return found;
}

/* The same, for a structure of the runtime, which begins at a whole word. */
static const void *structure(struct copy *c, uint64_t address, uint64_t size)
{
	if (!(address % sizeof(uint64_t)))
		return readable(c, address, size);
	c->set->unread = 1;
	return 0;
}

static uint8_t *put_length(uint8_t *at, uint32_t n)
{
	if (n >= 0x80)
		*at++ = n | 0x80;
	*at++ = n >= 0x80 ? n >> 7 : n;
	return at;
}

static uint8_t *put_bytes(uint8_t *at, const uint8_t *from, uint32_t n)
{
	at = put_length(at, n);
	for (uint32_t i = 0; i < n; i++)
		*at++ = from[i];
	return at;
}

/* A key that is cut would be another: such a label is left out. */
static void copy_label(struct copy *c, const struct go_string *key, const struct go_string *value)
{
	uint32_t n = value->length < AGENT_MAX_LABEL ? value->length : AGENT_MAX_LABEL;
	const uint8_t *k, *v;

	c->set->cut += n < value->length;
	if (c->labels >= AGENT_MAX_LABELS || key->length > AGENT_MAX_LABEL ||
	    (uint64_t)(c->end - c->at) < key->length + n + 4) {
		c->set->cut += n == value->length;
		return;
	}
	k = key->length ? readable(c, key->data, key->length) : c->at;
	v = n ? readable(c, value->data, n) : c->at;
	if (!k || !v)
		return;
	c->at = put_bytes(put_bytes(c->at, k, key->length), v, n);
	c->labels++;
}

static void copy_slice(struct copy *c, uint64_t pointer)
{
	const struct slice *s = structure(c, pointer, sizeof(*s));
	uint64_t n;
	const struct go_string *t;

	if (!s || !s->length)
		return;
	n = s->length < AGENT_MAX_LABELS ? s->length : AGENT_MAX_LABELS;
	c->set->cut += s->length - n;
	t = structure(c, s->items, n * 2 * sizeof(*t));
	for (uint64_t i = 0; t && i < n && !c->set->unread; i++)
		copy_label(c, &t[2 * i], &t[2 * i + 1]);
}

/* A bucket and those that hang on it. */
static void copy_chain(struct copy *c, uint64_t address)
{
	while (address && c->buckets && !c->set->unread) {
		const struct go_bucket *b = structure(c, address, sizeof(*b));

		if (!b)
			return;
		c->buckets--;
		for (uint32_t i = 0; i < 8; i++)
			if (b->tophash[i] >= GO_MIN_TOPHASH)
				copy_label(c, &b->keys[i], &b->values[i]);
		address = b->overflow;
	}
}

static void copy_buckets(struct copy *c, uint64_t address, uint64_t count)
{
	for (uint64_t i = 0; address && i < count && c->buckets && !c->set->unread; i++)
		copy_chain(c, address + i * sizeof(struct go_bucket));
}

static void copy_map(struct copy *c, uint64_t pointer)
{
	const uint64_t *place = structure(c, pointer, sizeof(*place));
	const struct go_hmap *m = place && *place ? structure(c, *place, sizeof(*m)) : 0;
	uint64_t count, seen;

	if (!m || m->b > MAX_B)
		return;
	count = m->count;
	copy_buckets(c, m->buckets, 1ull << m->b);
	if (m->oldbuckets)
		copy_buckets(c, m->oldbuckets,
			     m->flags & SAME_SIZE || !m->b ? 1ull << m->b : 1ull << (m->b - 1));
	seen = c->labels + c->set->cut;
	if (!c->buckets && count > seen)
		c->set->cut += count - seen;
}

static uint64_t hash_of(const uint8_t *bytes, uint32_t size)
{
	uint64_t hash = size, word;

	for (uint32_t i = 0; i < size; i += 8) {
		uint32_t n = size - i < 8 ? size - i : 8;

		word = 0;
		for (uint32_t k = 0; k < n; k++)
			word |= (uint64_t)bytes[i + k] << (8 * k);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	hash *= 0xff51afd7ed558ccdull;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

void agent_labels_copy(struct agent_slot *slot, const struct agent_shared *shared, uint64_t pointer,
		       struct agent_label_set *ret)
{
	struct copy c = {shared, slot->labels,      slot->labels + AGENT_LABEL_BYTES,
			 0,      AGENT_MAX_BUCKETS, ret};

	ret->cut = ret->unread = 0;
	if (shared->config.label_maps)
		copy_map(&c, pointer);
	else
		copy_slice(&c, pointer);
	ret->size = c.at - slot->labels;
	ret->hash = hash_of(slot->labels, ret->size);
}
