#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/agent_request.h"
#include "base/unit_test.h"

enum { HEAP = 1 << 16, REQUEST_BYTES = 192, METHOD = 0, URL = 16, HEADER = 56, PEER = 176 };
enum { URL_BYTES = 72, PATH = 56 };

struct fixture {
	_Alignas(16) uint8_t heap[HEAP];
	size_t used;
	struct agent_shared shared;
	uint8_t copied[AGENT_REQUEST_BYTES + 64];
	size_t size;
};

struct text {
	uint64_t data, length;
};

struct list {
	uint64_t items, length, capacity;
};

static struct fixture fixture;

static struct fixture *make(enum go_map_kind kind)
{
	struct fixture *f = &fixture;

	memset(f, 0, sizeof(*f));
	f->shared.http = (struct agent_http){.request_size = REQUEST_BYTES,
					     .method = METHOD,
					     .url = URL,
					     .header = HEADER,
					     .peer = PEER,
					     .url_size = URL_BYTES,
					     .path = PATH,
					     .map_kind = kind};
	f->shared.readable[0] =
		(struct agent_readable){(uint64_t)f->heap, (uint64_t)f->heap + HEAP};
	f->shared.readable_count = 1;
	return f;
}

static uint64_t put(struct fixture *f, const void *bytes, size_t n)
{
	uint64_t at = (uint64_t)f->heap + f->used;

	assert_true(f->used + n <= HEAP);
	memcpy(f->heap + f->used, bytes, n);
	f->used += (n + 15) & ~15ul;
	return at;
}

static struct text put_text(struct fixture *f, const char *text)
{
	return (struct text){put(f, text, strlen(text) + 1), strlen(text)};
}

static uint64_t put_request(struct fixture *f, const char *path, uint64_t header)
{
	uint8_t request[REQUEST_BYTES] = {0}, url[URL_BYTES] = {0};
	struct text texts[] = {put_text(f, "GET"), put_text(f, path), put_text(f, "[::1]:80")};
	uint64_t address;

	memcpy(request + METHOD, &texts[0], sizeof(*texts));
	memcpy(url + PATH, &texts[1], sizeof(*texts));
	memcpy(request + PEER, &texts[2], sizeof(*texts));
	address = put(f, url, sizeof(url));
	memcpy(request + URL, &address, sizeof(address));
	memcpy(request + HEADER, &header, sizeof(header));
	return put(f, request, sizeof(request));
}

static void copy(struct fixture *f, uint64_t request)
{
	memset(f->copied, 0xaa, sizeof(f->copied));
	f->size = agent_request_copy(&f->shared, request, f->copied) - f->copied;
	assert_true(f->size <= AGENT_REQUEST_BYTES);
	for (size_t i = f->size; i < sizeof(f->copied); i++)
		assert_int_equal(f->copied[i], 0xaa);
}

#define PARENT "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
#define PARTS "\1\3GET\2\2/a\4\10[::1]:80"

static void assert_copied(const struct fixture *f, const char *want)
{
	assert_int_equal(f->size, strlen(want));
	assert_memory_equal(f->copied, want, strlen(want));
}

static void without_a_header_three_parts_are_copied(void **state)
{
	struct fixture *f = make(MAP_OF_GROUPS);

	copy(f, put_request(f, "/a", 0));
	assert_copied(f, PARTS);
	f->shared.http.request_size = 0; /* not known */
	copy(f, put_request(f, "/a", 0));
	assert_int_equal(f->size, 0);
}

static void a_longer_path_is_cut(void **state)
{
	struct fixture *f = make(MAP_OF_GROUPS);
	char path[1000];

	memset(path, 'p', sizeof(path));
	path[AGENT_MAX_PATH] = '\0';
	copy(f, put_request(f, path, 0));
	assert_int_equal(f->copied[5], PART_PATH);
	path[AGENT_MAX_PATH] = 'p';
	path[999] = '\0';
	copy(f, put_request(f, path, 0));
	assert_int_equal(f->copied[5], PART_PATH_CUT);
	assert_int_equal(f->copied[6] - 0x80 + f->copied[7] * 0x80, AGENT_MAX_PATH);
}

/* The value of "Traceparent"; the key is another of the same length where i is not the one. */
static struct text key_of(struct fixture *f, bool wanted)
{
	return put_text(f, wanted ? "Traceparent" : "Traceparens");
}

static struct list value_of(struct fixture *f, bool wanted)
{
	struct text text = put_text(f, wanted ? PARENT : "other");

	return (struct list){put(f, &text, sizeof(text)), 1, 1};
}

struct hmap {
	uint64_t count;
	uint8_t flags, b;
	uint16_t overflows;
	uint32_t seed;
	uint64_t buckets, old, evacuated, extra;
};

struct bucket {
	uint8_t top[8];
	struct text keys[8];
	struct list values[8];
	uint64_t overflow;
};

/* With keys in all places, the wanted one at `at`; 8: none. */
static struct bucket some_bucket(struct fixture *f, int at)
{
	struct bucket b = {.overflow = 0};

	for (int i = 0; i < 8; i++) {
		b.top[i] = 5 + i;
		b.keys[i] = key_of(f, i == at);
		b.values[i] = value_of(f, i == at);
	}
	return b;
}

static void a_map_of_buckets_is_searched(void **state)
{
	for (int at = 0; at < 8; at++) {
		struct fixture *f = make(MAP_OF_BUCKETS);
		struct bucket last = some_bucket(f, at), none[2];
		struct hmap map = {.count = 16, .b = 1};

		none[0] = none[1] = some_bucket(f, 8);
		none[at & 1].overflow = put(f, &last, sizeof(last));
		map.buckets = put(f, none, sizeof(none));
		copy(f, put_request(f, "/a", put(f, &map, sizeof(map))));
		assert_copied(f, PARTS "\5\67" PARENT);
		/* While the map grows it may be in the old part. A place that is empty has its
		 * key still. */
		none[0].overflow = put(f, &last, sizeof(last));
		map.buckets = 0;
		map.old = put(f, none, sizeof(none[0]));
		copy(f, put_request(f, "/a", put(f, &map, sizeof(map))));
		assert_copied(f, PARTS "\5\67" PARENT);
		last.top[at] = 1;
		none[0].overflow = put(f, &last, sizeof(last));
		map.old = put(f, none, sizeof(none[0]));
		map.b = 0;
		copy(f, put_request(f, "/a", put(f, &map, sizeof(map))));
		assert_copied(f, PARTS);
	}
}

struct made_map {
	uint64_t used, seed, directory, length;
};

struct table {
	uint16_t used, capacity, left;
	uint8_t depth;
	uint64_t index, groups, mask;
};

struct group {
	uint8_t control[8];
	struct {
		struct text key;
		struct list value;
	} pairs[8];
};

struct split_group {
	uint8_t control[8];
	struct text keys[8];
	struct list values[8];
};

static void put_pair(struct group *g, bool split, int i, struct text key, struct list value)
{
	struct split_group *s = (struct split_group *)g;

	g->control[i] = 0x11;
	if (split) {
		s->keys[i] = key;
		s->values[i] = value;
	} else {
		g->pairs[i].key = key;
		g->pairs[i].value = value;
	}
}

static struct group some_group(struct fixture *f, int at)
{
	struct group g;

	memset(&g, 0, sizeof(g));
	for (int i = 0; i < 8; i++)
		put_pair(&g, f->shared.http.map_kind == MAP_OF_SPLIT_GROUPS, i, key_of(f, i == at),
			 value_of(f, i == at));
	return g;
}

static void a_map_of_groups_is_searched(void **state)
{
	for (int at = 0; at < 16; at++) {
		struct fixture *f = make(at & 8 ? MAP_OF_SPLIT_GROUPS : MAP_OF_GROUPS);
		struct group g = some_group(f, at & 7), two[2];
		struct made_map map = {.used = 8, .directory = put(f, &g, sizeof(g))};
		struct table t = {.mask = 1};
		uint64_t tables[2];

		copy(f, put_request(f, "/a", put(f, &map, sizeof(map))));
		assert_copied(f, PARTS "\5\67" PARENT);
		two[0] = some_group(f, 8);
		two[1] = g;
		t.groups = put(f, two, sizeof(two));
		tables[0] = tables[1] = put(f, &t, sizeof(t));
		map.directory = put(f, tables, sizeof(tables));
		map.length = 2;
		copy(f, put_request(f, "/a", put(f, &map, sizeof(map))));
		assert_copied(f, PARTS "\5\67" PARENT);
		two[1].control[at & 7] = 0xfe;
		t.groups = put(f, two, sizeof(two));
		tables[0] = tables[1] = put(f, &t, sizeof(t));
		map.directory = put(f, tables, sizeof(tables));
		copy(f, put_request(f, "/a", put(f, &map, sizeof(map))));
		assert_copied(f, PARTS);
	}
}

/* A stream with this method at `method` and a context at `context`, which has the map among its
 * values. */
static uint64_t put_stream(struct fixture *f, int context, int method, uint64_t map)
{
	uint64_t outer[6] = {1, 0, 3, 4, 5, map}, inner[6] = {1, 0, 3, 4, 5, 6}, stream[16] = {7};
	struct text text = put_text(f, "/pkg.Svc/Do");

	outer[1] = put(f, inner, sizeof(inner));
	inner[1] = put(f, outer, sizeof(outer));
	inner[5] = 0;
	stream[context / 8] = put(f, inner, sizeof(inner));
	memcpy(stream + method / 8, &text, sizeof(text));
	return put(f, stream, sizeof(stream));
}

static void of_a_stream_the_method_and_the_metadata_are_copied(void **state)
{
	static const int places[][2] = {{40, 80}, {48, 88}, {16, 24}};

	for (int i = 0; i < 3; i++) {
		struct fixture *f = make(MAP_OF_GROUPS);
		struct group g = some_group(f, 3);
		struct made_map map = {.used = 8, .directory = put(f, &g, sizeof(g))};
		uint64_t header = put(f, &map, sizeof(map));
		uint64_t stream = put_stream(f, places[i][0], places[i][1], header);

		if (i == 2) /* embedded */
			stream = put(f, &stream, sizeof(stream));
		f->size = agent_grpc_copy(&f->shared, stream, f->copied) - f->copied;
		assert_copied(f, "\6\13/pkg.Svc/Do\5\67" PARENT);
	}
}

/* Its peer is a value of the context whose type is *peer.Peer, with a *net.TCPAddr. */
static void of_a_stream_the_peer_is_copied(void **state)
{
	enum { PEER_TYPE = 0x1000, ADDRESS_TYPE = 0x2000 };

	for (int i = 0; i < 3; i++) {
		struct fixture *f = make(MAP_OF_GROUPS);
		uint64_t itab[2] = {0, ADDRESS_TYPE + i}, peer[2], context[6] = {1, 0, 3, 4};
		uint64_t address[6] = {put(f, "\12\1\2\3", 4), 4, 4, 0x1234};
		uint64_t stream[16] = {0};
		struct text text = put_text(f, "/pkg.Svc/Do");

		f->shared.http.grpc_peer = PEER_TYPE;
		f->shared.http.tcp_address = ADDRESS_TYPE;
		peer[0] = put(f, itab, sizeof(itab));
		peer[1] = put(f, address, sizeof(address));
		context[4] = PEER_TYPE;
		context[5] = put(f, peer, sizeof(peer));
		stream[5] = put(f, context, sizeof(context));
		memcpy(stream + 10, &text, sizeof(text));
		f->size = agent_grpc_copy(&f->shared, put(f, stream, sizeof(stream)), f->copied) -
			  f->copied;
		assert_copied(f,
			      i ? "\6\13/pkg.Svc/Do" : "\6\13/pkg.Svc/Do\7\7\x34\x12\4\12\1\2\3");
	}
}

static void the_code_of_a_grpc_status_is_read(void **state)
{
	struct fixture *f = make(MAP_OF_GROUPS);
	uint32_t message[16] = {[10] = 5}, code = 9;
	uint64_t status = put(f, message, sizeof(message)), ok = 0;

	status = put(f, &status, sizeof(status));
	assert_false(agent_grpc_status(&f->shared, status, &code));
	f->shared.http.grpc_code = 40;
	assert_true(agent_grpc_status(&f->shared, status, &code));
	assert_int_equal(code, 5);
	assert_true(agent_grpc_status(&f->shared, put(f, &ok, sizeof(ok)), &code));
	assert_int_equal(code, 0);
	assert_false(agent_grpc_status(&f->shared, 0, &code));
	ok = 8;
	assert_false(agent_grpc_status(&f->shared, put(f, &ok, sizeof(ok)), &code));
}

enum { CHI_PATTERN = 16, CHI_PATTERNS = 32 };

static uint64_t put_chi(struct fixture *f, const char *const *patterns, int n, const char *last)
{
	struct text items[20], one = put_text(f, last);
	uint64_t context[8] = {0};

	for (int i = 0; i < n; i++)
		items[i] = put_text(f, patterns[i]);
	if (n && !strcmp(patterns[n - 1], last))
		one = items[n - 1];
	memcpy(context + CHI_PATTERN / 8, &one, sizeof(one));
	context[CHI_PATTERNS / 8] = put(f, items, sizeof(items));
	context[CHI_PATTERNS / 8 + 1] = n;
	f->shared.http.chi_pattern = CHI_PATTERN;
	f->shared.http.chi_patterns = CHI_PATTERNS;
	return put(f, context, sizeof(context));
}

static void assert_chi(const char *const *patterns, int n, const char *last, const char *want)
{
	struct fixture *f = make(MAP_OF_GROUPS);
	uint64_t context = put_chi(f, patterns, n, last);
	const struct go_slice *list = agent_chi_patterns(&f->shared, context);

	assert_int_equal(list != NULL, want != NULL);
	if (!want)
		return;
	f->size = agent_chi_copy(&f->shared, list, f->copied) - f->copied;
	assert_copied(f, want);
}

static void of_a_chi_context_all_patterns_are_copied_as_one(void **state)
{
	const char *const nested[] = {"/api/*", "/users/*", "/{id}"};
	const char *many[17];
	char is_long[AGENT_MAX_ROUTE + 1] = "";

	assert_chi(nested, 3, "/{id}", "/api/users/{id}");
	assert_chi(nested, 1, "/api/*", "/api/*");
	assert_chi(nested, 2, "/{id}", NULL); /* not its last one: it is no context */
	assert_chi(nested, 0, "/{id}", NULL);
	for (int i = 0; i < 17; i++)
		many[i] = "/0123456789012345678901234567";
	assert_chi(many, 17, many[16], NULL);
	while (strlen(is_long) + 29 <= AGENT_MAX_ROUTE)
		strcat(is_long, many[0]);
	strncat(is_long, many[0], AGENT_MAX_ROUTE - strlen(is_long));
	assert_chi(many, 16, many[15], is_long);
}

static void a_route_is_read_where_its_place_says(void **state)
{
	struct fixture *f = make(MAP_OF_GROUPS);
	struct text text = put_text(f, "/a");
	uint64_t inner[4] = {0}, outer[4] = {0}, address;
	const struct go_string *s;

	memcpy(inner + 2, &text, sizeof(text));
	outer[3] = put(f, inner, sizeof(inner));
	address = put(f, outer, sizeof(outer));
	s = agent_route_field(&f->shared, outer[3], AGENT_FIELD(0, 16));
	assert_int_equal(s->data, text.data);
	s = agent_route_field(&f->shared, address, AGENT_FIELD(24 + 1, 16));
	assert_int_equal(s->data, text.data);
	assert_null(agent_route_field(&f->shared, address, AGENT_FIELD(16 + 1, 16)));
	assert_null(agent_route_field(&f->shared, address, AGENT_FIELD(0, UINT16_MAX)));

	f->shared.http.gin_path = 16;
	f->shared.http.gin_engine = 0;
	inner[0] = 7;
	address = put(f, inner, sizeof(inner));
	assert_int_equal(agent_gin_path(&f->shared, address, 7)->data, text.data);
	assert_null(agent_gin_path(&f->shared, address, 8));
}

/* Whatever lies where a request should be, nothing is read that may not be, and nothing takes
 * long. */
static void any_bytes_are_survived(void **state)
{
	uint8_t *forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	srandom(1);
	for (int round = 0; round < 30000; round++) {
		struct fixture *f = make(round % 3);
		uint64_t *words = (uint64_t *)f->heap;
		const struct go_slice *list;
		uint32_t code;

		for (int i = 0; i < 400; i++) {
			uint64_t inside = (uint64_t)f->heap + random() % 3200 / 8 * 8;

			words[i] = random() % 4   ? inside
				   : random() % 2 ? (uint64_t)(random() % 300)
						  : (uint64_t)forbidden + random() % 64;
		}
		f->shared.http.grpc_peer = f->shared.http.tcp_address = words[random() % 400];
		f->shared.http.grpc_code = 8 + random() % 2 * 32;
		agent_grpc_status(&f->shared, words[random() % 400], &code);
		f->shared.http.chi_pattern = f->shared.http.gin_path = 8;
		f->shared.http.chi_patterns = 24;
		agent_gin_path(&f->shared, words[random() % 400], words[random() % 400]);
		agent_route_field(&f->shared, words[random() % 400], random());
		list = agent_chi_patterns(&f->shared, words[random() % 400]);
		if (list)
			agent_chi_copy(&f->shared, list, f->copied);
		copy(f, (uint64_t)f->heap + random() % 3000 / 8 * 8);
		copy(f, (uint64_t)f->heap + HEAP - 8);
		copy(f, (uint64_t)forbidden);
		agent_grpc_copy(&f->shared, (uint64_t)f->heap + random() % 3000 / 8 * 8, f->copied);
	}
	munmap(forbidden, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_header_three_parts_are_copied),
		cmocka_unit_test(a_longer_path_is_cut),
		cmocka_unit_test(a_map_of_buckets_is_searched),
		cmocka_unit_test(a_map_of_groups_is_searched),
		cmocka_unit_test(of_a_stream_the_peer_is_copied),
		cmocka_unit_test(the_code_of_a_grpc_status_is_read),
		cmocka_unit_test(of_a_chi_context_all_patterns_are_copied_as_one),
		cmocka_unit_test(a_route_is_read_where_its_place_says),
		cmocka_unit_test(of_a_stream_the_method_and_the_metadata_are_copied),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
