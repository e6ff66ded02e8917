#include "collect/target_labels.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/strbuf.h"
#include "gotrace/label_text.h"

struct error *labels_init(struct labels *l, struct target *t, const struct golayout *lay,
			  uint32_t slots, struct texts *texts)
{
	*l = (struct labels){.t = t, .lay = lay, .texts = texts, .slots = slots};
	l->sets.maps = lay->minor <= 23;
	l->known = calloc(slots, sizeof(l->known[0]));
	return l->known ? NULL : &error_no_memory;
}

void labels_deinit(struct labels *l)
{
	label_sets_release(&l->sets);
	unread_release(l->read_early);
	free(l->known);
}

static struct error *must_check keep_text(struct labels *l, struct label_pair *pairs, size_t count,
					  uint32_t *ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	label_text_add(&sb, pairs, count);
	if (sb.failed)
		return &error_no_memory;
	*ret = texts_add(l->texts, sb.data, sb.length);
	if (*ret == TEXTS_FAILED)
		return &error_no_memory;
	l->dropped += sb.length && !*ret;
	return NULL;
}

/* The agent's own bytes, which the target may have written over. */
static struct error *must_check decode(struct labels *l, const struct drain_text *text,
				       uint32_t *ret)
{
	struct cursor c = cursor_of(text->bytes, text->length, "a set of labels");
	struct label_pair pairs[AGENT_MAX_LABELS];
	size_t n = 0;

	while (c.at < c.end && n < AGENT_MAX_LABELS) {
		struct label_pair *p = &pairs[n];

		p->key_length = cursor_uvarint(&c);
		p->key = cursor_bytes(&c, p->key_length);
		p->value_length = cursor_uvarint(&c);
		p->value = cursor_bytes(&c, p->value_length);
		if (c.failed) {
			l->dropped++;
			break;
		}
		n++;
	}
	return keep_text(l, pairs, n, ret);
}

/* A set that was read from outside. */
static struct error *must_check text_of_set(struct labels *l, uint32_t id, uint32_t *ret)
{
	struct label_set set = label_sets_get(&l->sets, id);
	_cleanup_free_ struct label_pair *pairs = calloc(set.count + 1, sizeof(*pairs));

	if (!pairs)
		return &error_no_memory;
	for (uint32_t i = 0; i < set.count; i++) {
		const struct interned *k = &l->sets.strings.strings[set.labels[i].key];
		const struct interned *v = &l->sets.strings.strings[set.labels[i].value];

		/* As the agent cuts it: one set has one text. */
		size_t length = v->length < AGENT_MAX_LABEL ? v->length : AGENT_MAX_LABEL;

		pairs[i] = (struct label_pair){k->data, k->length, v->data, length};
	}
	return keep_text(l, pairs, set.count, ret);
}

struct error *labels_read(struct labels *l, struct labelled *items, size_t count)
{
	uint32_t sets[LABELS_BATCH];
	struct error *err = label_reader_read(&l->sets, l->t, l->lay, items, count, sets);

	for (size_t i = 0; !err && i < count; i++) {
		items[i].text = 0;
		if (sets[i] != LABELS_TORN)
			err = text_of_set(l, sets[i], &items[i].text);
		else
			l->dropped++;
	}
	return err;
}

void labels_add_read(struct labels *l, struct unread_set *list)
{
	struct unread_set **end = &l->read_early;

	while (*end)
		end = &(*end)->next;
	*end = list;
}

/* The set of this record, no longer in the list. */
static struct unread_set *take_early(struct labels *l, const struct drain_record *r)
{
	for (struct unread_set **at = &l->read_early; *at; at = &(*at)->next) {
		struct unread_set *set = *at;

		if (set->goid != r->numbers[0] || set->labels != r->numbers[2])
			continue;
		*at = set->next;
		return set;
	}
	return NULL;
}

/* It was read when it was collected, or is not known: by now the goroutine may have others. */
static struct error *must_check text_of_unread(struct labels *l, const struct drain_record *r,
					       uint32_t *ret)
{
	struct unread_set *early = take_early(l, r);
	struct error *err;

	if (!early) {
		l->dropped++;
		return NULL;
	}
	err = decode(l, &(struct drain_text){early->bytes, early->size}, ret);
	unread_free(early);
	return err;
}

struct error *labels_of_record(struct labels *l, const struct drain_record *r, uint32_t *ret)
{
	uint32_t *known = l->known[r->slot % l->slots];
	struct error *err;

	*ret = 0;
	switch (r->kind) {
	case RECORD_LABELS:
		l->cut += r->numbers[2];
		err = decode(l, &r->texts[0], ret);
		known[r->numbers[1] % AGENT_LABEL_SETS] = *ret;
		return err;
	case RECORD_LABELS_AGAIN:
		*ret = known[r->numbers[1] % AGENT_LABEL_SETS];
		return NULL;
	case RECORD_LABELS_UNREAD:
		return text_of_unread(l, r, ret);
	default:
		return NULL;
	}
}

void labels_mark_texts(struct labels *l)
{
	for (uint32_t slot = 0; slot < l->slots; slot++)
		for (size_t i = 0; i < AGENT_LABEL_SETS; i++)
			texts_mark(l->texts, l->known[slot][i]);
}
