#include "agent/agent_request.h"

#include "agent/agent_memory.h"
#include "labels/go_header_map.h"

enum { MAX_DIRECTORY = 16, MAX_CONTEXTS = 24, MOST_KEYS = 1 << 16 };

struct search {
	const struct agent_shared *shared;
	uint32_t left; /* places that may still be looked at */
	const struct go_slice *found;
	const uint64_t *peer; /* a net.TCPAddr */
};

static const void *structure(const struct agent_shared *sh, uint64_t address, uint64_t size)
{
	return address && !(address % sizeof(uint64_t)) ? agent_memory(sh, address, size) : 0;
}

static void copy_bytes(uint8_t *to, const uint8_t *from, uint32_t n)
{
	typedef uint64_t __attribute__((may_alias, aligned(1))) any_word;
	uint32_t i = 0;

	for (; i + 8 <= n; i += 8)
		*(any_word *)(to + i) = *(const any_word *)(from + i);
	for (; i < n; i++)
		to[i] = from[i];
}

uint8_t *agent_string_copy(const struct agent_shared *sh, uint64_t data, uint64_t length,
			   uint32_t most, uint8_t *at)
{
	uint32_t n = length < most ? length : most;
	const uint8_t *from = n ? agent_memory(sh, data, n) : 0;

	n = from ? n : 0;
	if (n >= 0x80)
		*at++ = n | 0x80;
	*at++ = n >= 0x80 ? n >> 7 : n;
	copy_bytes(at, from, n);
	return at + n;
}

static uint8_t *put_part(const struct agent_shared *sh, enum agent_request_part part,
			 const struct go_string *s, uint32_t most, uint8_t *at)
{
	*at++ = part;
	return agent_string_copy(sh, s->data, s->length, most, at);
}

/* ---- the header ---- */

/* "Traceparent", as net/http writes the names of headers, or "traceparent", as gRPC does. */
static int is_wanted(const struct agent_shared *sh, const struct go_string *key)
{
	typedef uint64_t __attribute__((may_alias, aligned(1))) any_word;
	const uint8_t *name;

	if (key->length != 11)
		return 0;
	name = agent_memory(sh, key->data, 11);
	return name && (*(const any_word *)name | 0x20) == 0x7261706563617274ull &&
	       name[8] == 'e' && name[9] == 'n' && name[10] == 't';
}

static void look_in_bucket(struct search *s, const struct header_bucket *b)
{
	for (uint32_t i = 0; i < GO_MAP_SLOTS && !s->found; i++)
		if (b->tophash[i] >= GO_MIN_TOPHASH && is_wanted(s->shared, &b->keys[i]))
			s->found = &b->values[i];
}

static void look_in_buckets(struct search *s, uint64_t address, uint64_t count)
{
	for (uint64_t i = 0; address && i < count; i++) {
		uint64_t at = address + i * sizeof(struct header_bucket);

		while (at && s->left && !s->found) {
			const struct header_bucket *b = structure(s->shared, at, sizeof(*b));

			if (!b)
				return;
			s->left -= GO_MAP_SLOTS;
			look_in_bucket(s, b);
			at = b->overflow;
		}
		if (!s->left || s->found)
			return;
	}
}

/* While it grows, a key is in one of the two. */
static void look_in_hmap(struct search *s, uint64_t address)
{
	const struct go_hmap *m = structure(s->shared, address, sizeof(*m));

	if (!m || m->b > 16 || !m->count || m->count > MOST_KEYS)
		return;
	look_in_buckets(s, m->buckets, 1ull << m->b);
	if (m->oldbuckets && !s->found)
		look_in_buckets(s, m->oldbuckets, 1ull << m->b);
}

static void look_in_group(struct search *s, uint64_t address)
{
	const struct header_group *g = structure(s->shared, address, sizeof(*g));
	const struct split_header_group *split = (const void *)g;
	int is_split = s->shared->http.map_kind == MAP_OF_SPLIT_GROUPS;

	for (uint32_t i = 0; g && i < GO_MAP_SLOTS && !s->found; i++) {
		const struct go_string *key = is_split ? &split->keys[i] : &g->pairs[i].key;

		if (!(g->control[i] & GO_MAP_NO_KEY) && is_wanted(s->shared, key))
			s->found = is_split ? &split->values[i] : &g->pairs[i].value;
	}
	s->left -= s->left < GO_MAP_SLOTS ? s->left : GO_MAP_SLOTS;
}

static void look_in_table(struct search *s, uint64_t address)
{
	const struct go_table *t = structure(s->shared, address, sizeof(*t));

	for (uint64_t i = 0; t && i <= t->mask && s->left && !s->found; i++)
		look_in_group(s, t->groups + i * sizeof(struct header_group));
}

static void look_in_map(struct search *s, uint64_t address)
{
	const struct go_map *m = structure(s->shared, address, sizeof(*m));
	const uint64_t *directory;
	uint64_t n;

	if (!m || !m->used || m->used > MOST_KEYS)
		return;
	if (!m->length) {
		look_in_group(s, m->directory);
		return;
	}
	n = m->length < MAX_DIRECTORY ? m->length : MAX_DIRECTORY;
	directory = structure(s->shared, m->directory, n * sizeof(*directory));
	for (uint64_t i = 0; directory && i < n && s->left && !s->found; i++)
		if (!i || directory[i] != directory[i - 1])
			look_in_table(s, directory[i]);
}

static void look_in_header(struct search *s, uint64_t header)
{
	if (s->shared->http.map_kind == MAP_OF_BUCKETS)
		look_in_hmap(s, header);
	else
		look_in_map(s, header);
}

/* The first value that was found, if it is long enough. */
static uint8_t *put_traceparent(const struct search *s, uint8_t *at)
{
	const struct go_string *value = 0;

	if (s->found && s->found->length)
		value = structure(s->shared, s->found->items, sizeof(*value));
	if (!value || value->length < AGENT_TRACEPARENT)
		return at;
	return put_part(s->shared, PART_TRACEPARENT, value, AGENT_TRACEPARENT, at);
}

/* ---- the request ---- */

uint8_t *agent_request_copy(const struct agent_shared *sh, uint64_t request, uint8_t *at)
{
	const struct agent_http *h = &sh->http;
	const uint8_t *r = h->request_size ? structure(sh, request, h->request_size) : 0;
	struct search search = {sh, AGENT_MAX_HEADERS, 0, 0};
	const struct go_string *s;
	const uint8_t *url;

	if (!r)
		return at;
	at = put_part(sh, PART_METHOD, (const void *)(r + h->method), AGENT_MAX_METHOD, at);
	url = structure(sh, *(const uint64_t *)(r + h->url), h->url_size);
	s = (const void *)(url + h->path);
	if (url)
		at = put_part(sh, s->length > AGENT_MAX_PATH ? PART_PATH_CUT : PART_PATH, s,
			      AGENT_MAX_PATH, at);
	at = put_part(sh, PART_PEER, (const void *)(r + h->peer), AGENT_MAX_PEER, at);
	look_in_header(&search, *(const uint64_t *)(r + h->header));
	return put_traceparent(&search, at);
}

/* ---- gRPC ---- */

/* Where a stream has what is looked for. */
struct grpc_layout {
	uint8_t is_embedded; /* in a structure that begins with its address */
	uint8_t context;     /* the data of that interface */
	uint8_t method;
};

/* From 1.69 on; up to 1.65; in between. */
static const struct grpc_layout grpc_layouts[] = {{1, 16, 24}, {0, 40, 80}, {0, 48, 88}};

/* Words of a net.TCPAddr: a slice, a number and a string. */
enum { TCP_IP, TCP_IP_LENGTH, TCP_PORT = 3, TCP_ZONE, TCP_ZONE_LENGTH, TCP_WORDS, MAX_ZONE = 16 };

/* Text of the form /A/B. */
static int is_method(const struct agent_shared *sh, const struct go_string *s)
{
	uint64_t n = s->length < AGENT_MAX_PATH ? s->length : AGENT_MAX_PATH;
	const uint8_t *text = n > 3 ? agent_memory(sh, s->data, n) : 0;

	if (!text || text[0] != '/')
		return 0;
	for (uint64_t i = 2; i < n; i++)
		if (text[i] == '/')
			return 1;
	return 0;
}

/* A peer.Peer begins with a net.Addr: an itab, whose second word is the type, and the data. */
static void look_at_peer(struct search *s, uint64_t address)
{
	const uint64_t *peer = structure(s->shared, address, 2 * sizeof(*peer));
	const uint64_t *itab = peer ? structure(s->shared, peer[0], 2 * sizeof(*itab)) : 0;

	if (itab && itab[1] == s->shared->http.tcp_address)
		s->peer = structure(s->shared, peer[1], TCP_WORDS * sizeof(*peer));
}

/* From the innermost context outwards. */
static void look_in_contexts(struct search *s, uint64_t context)
{
	/* Two interfaces, the parent and the key, and a third: the value. */
	enum { PARENT = 1, TYPE = 4, VALUE = 5, WORDS = 6 };
	uint64_t of_peer = s->shared->http.grpc_peer;

	for (uint32_t i = 0; i < MAX_CONTEXTS && (!s->found || (of_peer && !s->peer)); i++) {
		const uint64_t *c = structure(s->shared, context, WORDS * sizeof(*c));

		if (!c)
			return;
		if (of_peer && c[TYPE] == of_peer)
			look_at_peer(s, c[VALUE]);
		else if (s->left && !s->found)
			look_in_header(s, c[VALUE]);
		context = c[PARENT];
	}
}

static uint8_t *put_peer(const struct search *s, uint8_t *at)
{
	const uint64_t *p = s->peer;
	uint64_t length = p ? p[TCP_IP_LENGTH] : 0;
	uint32_t zone = p && p[TCP_ZONE_LENGTH] < MAX_ZONE ? p[TCP_ZONE_LENGTH] : 0;
	const uint8_t *ip =
		length == 4 || length == 16 ? agent_memory(s->shared, p[TCP_IP], length) : 0;
	const uint8_t *name = zone ? agent_memory(s->shared, p[TCP_ZONE], zone) : 0;

	if (!ip)
		return at;
	zone = name ? zone : 0;
	*at++ = PART_TCP;
	*at++ = 3 + length + zone;
	*at++ = p[TCP_PORT];
	*at++ = p[TCP_PORT] >> 8;
	*at++ = length;
	copy_bytes(at, ip, length);
	copy_bytes(at + length, name, zone);
	return at + length + zone;
}

uint8_t *agent_grpc_copy(const struct agent_shared *sh, uint64_t stream, uint8_t *at)
{
	struct search search = {sh, AGENT_MAX_HEADERS, 0, 0};
	const uint64_t *first = structure(sh, stream, sizeof(*first));

	for (uint32_t i = 0; first && sh->http.request_size && i < 3; i++) {
		const struct grpc_layout *l = &grpc_layouts[i];
		uint64_t base = l->is_embedded ? *first : stream;
		const uint8_t *s = structure(sh, base, l->method + sizeof(struct go_string));
		const struct go_string *method = (const void *)(s + l->method);

		if (!s || !is_method(sh, method))
			continue;
		at = put_part(sh, PART_GRPC, method, AGENT_MAX_PATH, at);
		look_in_contexts(&search, *(const uint64_t *)(s + l->context));
		return put_peer(&search, put_traceparent(&search, at));
	}
	return at;
}

int agent_grpc_status(const struct agent_shared *sh, uint64_t status, uint32_t *ret)
{
	uint32_t at = sh->http.grpc_code;
	const uint64_t *s = at ? structure(sh, status, sizeof(*s)) : 0;
	const uint8_t *message = s && *s ? structure(sh, *s, at + sizeof(*ret)) : 0;

	if (!s || (*s && !message))
		return 0;
	*ret = message ? *(const uint32_t *)(message + at) : 0;
	return 1;
}

/* ---- routers ---- */

const struct go_string *agent_route_field(const struct agent_shared *sh, uint64_t address,
					  uint32_t place)
{
	uint32_t pointer = place >> 16, text = place & 0xffff;
	const uint64_t *to = pointer ? structure(sh, address + pointer - 1, sizeof(*to)) : &address;

	return to ? structure(sh, *to + text, sizeof(struct go_string)) : 0;
}

const struct go_slice *agent_chi_patterns(const struct agent_shared *sh, uint64_t context)
{
	uint32_t one = sh->http.chi_pattern, all = sh->http.chi_patterns;
	const struct go_string *last = one ? structure(sh, context + one, sizeof(*last)) : 0;
	const struct go_slice *list = one ? structure(sh, context + all, sizeof(*list)) : 0;
	const struct go_string *items;
	uint64_t n = list ? list->length : 0;

	if (!last || !n || n > AGENT_MAX_PATTERNS || !last->length)
		return 0;
	items = structure(sh, list->items, n * sizeof(*items));
	if (!items || items[n - 1].data != last->data || items[n - 1].length != last->length)
		return 0;
	return list;
}

const struct go_string *agent_gin_path(const struct agent_shared *sh, uint64_t context,
				       uint64_t engine)
{
	uint32_t path = sh->http.gin_path;
	const uint64_t *of = path ? structure(sh, context + sh->http.gin_engine, sizeof(*of)) : 0;

	return of && *of == engine ? structure(sh, context + path, sizeof(struct go_string)) : 0;
}

uint8_t *agent_chi_copy(const struct agent_shared *sh, const struct go_slice *list, uint8_t *at)
{
	const struct go_string *items = (const void *)list->items;
	uint8_t *begin = at;

	for (uint64_t i = 0; i < list->length && i < AGENT_MAX_PATTERNS; i++) {
		uint64_t left = AGENT_MAX_ROUTE - (at - begin);
		uint64_t n = items[i].length < left ? items[i].length : left;
		const uint8_t *from = n ? agent_memory(sh, items[i].data, n) : 0;

		if (!from)
			break;
		if (at - begin >= 2 && at[-1] == '*' && at[-2] == '/' && from[0] == '/')
			at -= 2;
		copy_bytes(at, from, n);
		at += n;
	}
	return at;
}
