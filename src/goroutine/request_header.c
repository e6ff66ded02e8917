#include "goroutine/request_header.h"

#include <string.h>

/* Limits: of places in a map that are looked at, of a map's directory, of contexts. */
enum { MOST_PLACES = 256, MOST_TABLES = 16, MOST_CONTEXTS = 24, MOST_KEYS = 1 << 16 };

struct search {
	struct target *t;
	enum go_map_kind kind;
	uint32_t left; /* places that may still be looked at */
	struct go_slice found;
	bool is_found;
};

static bool read_at(const struct search *s, uint64_t address, void *ret, size_t size)
{
	return address >= 4096 && !(address & 7) &&
	       !error_dropped(target_read(s->t, address, ret, size));
}

/* "Traceparent", as net/http writes the names of headers, or "traceparent", as gRPC does. */
static bool is_wanted(const struct search *s, const struct go_string *key)
{
	char name[11];

	if (key->length != sizeof(name) ||
	    error_dropped(target_read(s->t, key->data, name, sizeof(name))))
		return false;
	name[0] |= 0x20;
	return !memcmp(name, "traceparent", sizeof(name));
}

static void look_at(struct search *s, bool is_used, const struct go_string *key,
		    const struct go_slice *value)
{
	s->left -= s->left != 0;
	if (!is_used || s->is_found || !is_wanted(s, key))
		return;
	s->found = *value;
	s->is_found = true;
}

static void look_in_buckets(struct search *s, uint64_t address, uint64_t count)
{
	struct header_bucket b;

	for (uint64_t i = 0; address && i < count; i++)
		for (uint64_t at = address + i * sizeof(b); at; at = b.overflow) {
			if (!s->left || s->is_found || !read_at(s, at, &b, sizeof(b)))
				return;
			for (int k = 0; k < GO_MAP_SLOTS; k++)
				look_at(s, b.tophash[k] >= GO_MIN_TOPHASH, &b.keys[k],
					&b.values[k]);
		}
}

/* While it grows, a key is in one of the two. */
static void look_in_hmap(struct search *s, uint64_t address)
{
	struct go_hmap m;

	if (!read_at(s, address, &m, sizeof(m)) || m.b > 16 || !m.count || m.count > MOST_KEYS)
		return;
	look_in_buckets(s, m.buckets, 1ull << m.b);
	if (!s->is_found)
		look_in_buckets(s, m.oldbuckets, 1ull << m.b);
}

static void look_in_group(struct search *s, uint64_t address)
{
	union {
		struct header_group pairs;
		struct split_header_group split;
	} g;
	bool is_split = s->kind == MAP_OF_SPLIT_GROUPS;

	if (!read_at(s, address, &g, sizeof(g)))
		return;
	for (int i = 0; i < GO_MAP_SLOTS; i++)
		look_at(s, !(g.pairs.control[i] & GO_MAP_NO_KEY),
			is_split ? &g.split.keys[i] : &g.pairs.pairs[i].key,
			is_split ? &g.split.values[i] : &g.pairs.pairs[i].value);
}

static void look_in_table(struct search *s, uint64_t address)
{
	struct go_table t;

	if (!read_at(s, address, &t, sizeof(t)))
		return;
	for (uint64_t i = 0; i <= t.mask && s->left && !s->is_found; i++)
		look_in_group(s, t.groups + i * sizeof(struct header_group));
}

static void look_in_map(struct search *s, uint64_t address)
{
	uint64_t tables[MOST_TABLES], n;
	struct go_map m;

	if (!read_at(s, address, &m, sizeof(m)) || !m.used || m.used > MOST_KEYS)
		return;
	if (!m.length) {
		look_in_group(s, m.directory);
		return;
	}
	n = m.length < MOST_TABLES ? m.length : MOST_TABLES;
	if (!read_at(s, m.directory, tables, n * sizeof(*tables)))
		return;
	for (uint64_t i = 0; i < n && s->left && !s->is_found; i++)
		if (!i || tables[i] != tables[i - 1])
			look_in_table(s, tables[i]);
}

static void look_in_header(struct search *s, uint64_t header)
{
	if (s->kind == MAP_OF_BUCKETS)
		look_in_hmap(s, header);
	else
		look_in_map(s, header);
}

/* The first value that was found. */
static bool take_ids(const struct search *s, struct trace_ids *ret)
{
	char text[TRACEPARENT_LENGTH];
	struct go_string value;

	if (!s->is_found || !s->found.length ||
	    !read_at(s, s->found.items, &value, sizeof(value)) || value.length < sizeof(text) ||
	    error_dropped(target_read(s->t, value.data, text, sizeof(text))) ||
	    !is_traceparent(text, sizeof(text)))
		return false;
	memcpy(ret->trace, text + TRACE_ID, sizeof(ret->trace));
	memcpy(ret->span, text + SPAN_ID, sizeof(ret->span));
	return true;
}

bool request_header_ids(struct target *t, enum go_map_kind kind, uint64_t header,
			struct trace_ids *ret)
{
	struct search s = {.t = t, .kind = kind, .left = MOST_PLACES};

	look_in_header(&s, header);
	return take_ids(&s, ret);
}

/* From the innermost context outwards: each begins with its parent, and may have a value behind it,
 * which is taken for a map as metadata is one. */
bool request_context_ids(struct target *t, enum go_map_kind kind, uint64_t context,
			 struct trace_ids *ret)
{
	/* Two interfaces, the parent and the key, and a third: the value. */
	enum { PARENT = 1, VALUE = 5, WORDS = 6 };
	struct search s = {.t = t, .kind = kind, .left = MOST_PLACES};
	uint64_t words[WORDS];

	for (int i = 0; i < MOST_CONTEXTS && s.left && !s.is_found; i++) {
		if (!read_at(&s, context, words, sizeof(words)))
			break;
		look_in_header(&s, words[VALUE]);
		context = words[PARENT];
	}
	return take_ids(&s, ret);
}
