/* What a profile of the runtime has more than an earlier one: net/http/pprof's seconds=. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "profile/profile.h"

/* The samples of the earlier profile, by their keys; each is used once. */
struct earlier {
	struct intern keys;
	int64_t (*values)[PROFILE_MOST_VALUES]; /* by key */
	size_t capacity;
};

static void earlier_release(struct earlier *e)
{
	intern_release(&e->keys);
	free(e->values);
}

static void add_text(struct strbuf *key, const struct profile *p, uint32_t id)
{
	const char *text = intern_get(&p->strings, id);

	strbuf_add(key, text, strlen(text) + 1);
}

/* The stack, the size of its objects, and its labels. False: no memory. */
static bool key_of(const struct profile *p, size_t i, struct strbuf *key)
{
	const struct profile_sample *s = &p->samples[i];

	strbuf_reset(key);
	strbuf_add(key, &s->depth, sizeof(s->depth));
	if (s->depth)
		strbuf_add(key, s->pcs, s->depth * sizeof(*s->pcs));
	strbuf_add(key, &p->values[i].object_size, sizeof(p->values[i].object_size));
	for (uint32_t k = 0; k < s->label_count; k++) {
		add_text(key, p, s->labels[k].key);
		add_text(key, p, s->labels[k].value);
	}
	return !key->failed;
}

static struct error *must_check read_earlier(struct earlier *e, const struct profile *p,
					     struct strbuf *key)
{
	for (size_t i = 0; i < p->count; i++) {
		uint32_t id = key_of(p, i, key) ? intern_bytes(&e->keys, key->data, key->length)
						: INTERN_FAILED;

		if (id == INTERN_FAILED || !array_reserve(&e->values, &e->capacity, id + 1))
			return &error_no_memory;
		for (size_t k = 0; k < p->type_count; k++)
			e->values[id][k] += p->values[i].values[k];
	}
	return NULL;
}

/* Subtracts the earlier values from those of sample i. False: nothing is left. */
static bool subtract_from(struct profile *p, size_t i, int64_t earlier[PROFILE_MOST_VALUES])
{
	int64_t *values = p->values[i].values;
	bool any = false;

	for (size_t k = 0; k < p->type_count; k++) {
		values[k] -= earlier[k];
		any |= values[k] != 0;
	}
	memset(earlier, 0, sizeof(*earlier) * PROFILE_MOST_VALUES);
	return any;
}

/* count and wall_ns: two of the values, as tables show them. */
static void set_shown(struct profile *p, size_t i)
{
	const int64_t *v = p->values[i].values;
	size_t last = p->type_count - 1, before = last ? last - 1 : last;

	p->samples[i].count = v[before] > 0 ? v[before] : 0;
	if (last)
		p->samples[i].wall_ns = v[last] > 0 ? v[last] : 0;
}

static bool same_types(const struct profile *a, const struct profile *b)
{
	return a->type_count && a->type_count == b->type_count && a->runtime_name &&
	       b->runtime_name && !strcmp(a->runtime_name, b->runtime_name);
}

struct error *profile_subtract(struct profile *p, const struct profile *before)
{
	_cleanup_(earlier_release) struct earlier e = {0};
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	struct error *err;
	size_t kept = 0;

	if (!same_types(p, before))
		return error_format(ERROR_USAGE,
				    "cannot subtract a profile from one of another kind");
	err = read_earlier(&e, before, &key);
	for (size_t i = 0; !err && i < p->count; i++) {
		int64_t none[PROFILE_MOST_VALUES] = {0};
		uint32_t id;

		if (!key_of(p, i, &key))
			return &error_no_memory;
		id = intern_find(&e.keys, key.data, key.length);
		if (subtract_from(p, i, id == INTERN_FAILED ? none : e.values[id])) {
			struct profile_sample sample = p->samples[i];

			p->samples[i] = p->samples[kept];
			p->samples[kept] = sample;
			p->values[kept] = p->values[i];
			set_shown(p, kept++);
		}
	}
	if (err)
		return err;
	for (size_t i = kept; i < p->count; i++)
		free((void *)p->samples[i].pcs);
	p->count = kept;
	map_release(&p->index);
	return NULL;
}
