#include "collect/unread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "collect/drain.h"
#include "collect/label_reader.h"

/* The limit for all waiting sets together. */
#define MOST_HELD (16u << 20)
/* A set counts as so many more: there are few enough to search through. */
#define LEAST_HELD 4096

static _Atomic size_t held;

bool unread_init(struct unread *u, struct target *t, const struct golayout *lay, uint32_t slots)
{
	*u = (struct unread){.t = t, .lay = lay, .slots = slots};
	u->sets.maps = lay->minor <= 23;
	u->seen = calloc(slots, sizeof(u->seen[0]));
	return u->seen;
}

void unread_deinit(struct unread *u)
{
	label_sets_release(&u->sets);
	free(u->seen);
}

bool unread_is_new(struct unread *u, uint32_t slot, uint64_t count)
{
	bool is_new = count != u->seen[slot];

	u->seen[slot] = count;
	return is_new;
}

/* As the agent writes a set. */
static void encode(const struct label_sets *sets, uint32_t id, struct strbuf *sb)
{
	struct label_set set = label_sets_get(sets, id);

	for (uint32_t i = 0; i < set.count && i < AGENT_MAX_LABELS; i++) {
		const struct interned *k = &sets->strings.strings[set.labels[i].key];
		const struct interned *v = &sets->strings.strings[set.labels[i].value];
		size_t length = v->length < AGENT_MAX_LABEL ? v->length : AGENT_MAX_LABEL;

		strbuf_add_uvarint(sb, k->length);
		strbuf_add(sb, k->data, k->length);
		strbuf_add_uvarint(sb, length);
		strbuf_add(sb, v->data, length);
	}
}

static struct unread_set *make_set(const struct label_sets *sets, uint32_t id,
				   const struct labelled *item)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct unread_set *set;

	encode(sets, id, &sb);
	if (sb.failed || atomic_load(&held) + LEAST_HELD + sb.length > MOST_HELD)
		return NULL;
	set = malloc(sizeof(*set) + sb.length);
	if (!set)
		return NULL;
	atomic_fetch_add(&held, LEAST_HELD + sb.length);
	*set = (struct unread_set){.goid = item->goid, .labels = item->labels, .size = sb.length};
	memcpy(set->bytes, sb.data, sb.length);
	return set;
}

/* Sets that cannot be read are unknown. */
static void read_all(struct unread *u, struct labelled *items, size_t count,
		     struct unread_set **list)
{
	uint32_t sets[LABELS_BATCH];

	if (error_dropped(label_reader_read(&u->sets, u->t, u->lay, items, count, sets)))
		return;
	for (size_t i = 0; i < count; i++) {
		struct unread_set *set = NULL;

		if (sets[i] != LABELS_TORN)
			set = make_set(&u->sets, sets[i], &items[i]);
		if (!set)
			continue;
		set->next = *list;
		*list = set;
	}
}

size_t unread_read(struct unread *u, const struct piece *p, struct unread_set **list)
{
	struct labelled items[LABELS_BATCH];
	uint64_t numbers[UNREAD_MOST][RECORD_MAX_NUMBERS];
	size_t count = drain_find(p, RECORD_LABELS_UNREAD, numbers, UNREAD_MOST);

	for (size_t i = 0; i < count; i++)
		items[i] = (struct labelled){.goid = numbers[i][0],
					     .g = numbers[i][1],
					     .labels = numbers[i][2]};
	if (count)
		read_all(u, items, count, list);
	return count;
}

void unread_free(struct unread_set *set)
{
	atomic_fetch_sub(&held, LEAST_HELD + set->size);
	free(set);
}

void unread_release(struct unread_set *list)
{
	for (struct unread_set *next; list; list = next) {
		next = list->next;
		unread_free(list);
	}
}
