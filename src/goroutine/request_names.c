#include "goroutine/request_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "golayout/memory_variables.h"
#include "golayout/view.h"
#include "goroutine/request_header.h"
#include "goroutine/request_layouts.h"

enum { MAX_METHOD = 16, MAX_ROUTE = 200, MAX_PATH = 200 };

/* The outer end of a stack in which a word is looked for. */
enum { END_BYTES = 2048, WORDS = END_BYTES / 8 };

/* Whole ends that are searched in a recording, for a request and for its copy: afterwards only
 * known places are tried. Places of each kind that are known: the latest ones. */
enum { MOST_SEARCHES = 4096, MOST_COPY_SEARCHES = 256, PLACES = 4 };

/* Goroutines whose word is known; beyond it, all are forgotten. */
enum { MOST_KNOWN = 1 << 17 };

/* Where words were found: bytes from the stack's end. 0: none yet. */
struct places {
	uint64_t at[PLACES];
	const struct server_code *codes[PLACES];
	size_t next; /* to be replaced */
	size_t last; /* the latest */
};

/* A part that was found, and its text. */
struct part {
	const char *key;
	char text[MAX_PATH];
	size_t length;
};

struct found {
	struct part method, route, path, trace, span;
	uint64_t url, header; /* addresses, of a request */
	uint64_t context;     /* of a call of gRPC */
};

struct request_names {
	struct target *t;
	bool paths, ids;
	struct request_layouts layouts;
	struct map serving; /* stack -> index in codes + 2; 1: serves nothing */
	struct map known;   /* goid -> the word on its stack */
	struct places places[SERVINGS];
	struct places copies;
	size_t searches, copy_searches;
	struct found latest;
	struct golayout_numbers numbers;
	uint64_t heap;      /* mheap_; 0: not found */
	uint32_t sweeps[2]; /* its sweepgen when the last two readings of samples began; 0: unknown
			     */
};

/* Without it goroutines that run have no names. */
static void find_heap(struct request_names *n, const struct image *img, const struct golayout *lay)
{
	struct memory_variables variables = {0};

	if (!error_dropped(memory_variables_find(img, lay, &variables)))
		n->heap = variables.heap;
}

struct error *request_names_open(struct target *t, const struct image *img,
				 const struct golayout *lay, const struct goroutine_options *wanted,
				 struct request_names **ret)
{
	struct request_names *n = calloc(1, sizeof(*n));
	struct error *err;

	*ret = NULL;
	if (!n)
		return &error_no_memory;
	n->t = t;
	n->paths = wanted->request_paths;
	n->ids = wanted->request_ids;
	n->numbers = lay->n;
	err = request_layouts_find(t, img, lay, &n->layouts);
	if (!err && n->layouts.code_count)
		find_heap(n, img, lay);
	if (!err && n->layouts.code_count)
		*ret = n;
	else
		free(n);
	return err;
}

void request_names_close(struct request_names *n)
{
	if (!n)
		return;
	map_release(&n->serving);
	map_release(&n->known);
	free(n);
}

static void add_place(struct places *p, const struct server_code *code, uint64_t at)
{
	p->last = p->next++ % PLACES;
	p->at[p->last] = at;
	p->codes[p->last] = code;
}

/* ---- the target's memory ---- */

static const struct found nothing = {.method.key = "method",
				     .route.key = "route",
				     .path.key = "path",
				     .trace.key = "trace_id",
				     .span.key = "span_id"};

static bool read_at(const struct request_names *n, uint64_t address, void *ret, size_t size)
{
	return address >= 4096 && !(address & 7) &&
	       !error_dropped(target_read(n->t, address, ret, size));
}

static bool read_word(const struct request_names *n, uint64_t address, uint64_t *ret)
{
	return read_at(n, address, ret, sizeof(*ret));
}

static uint64_t word_at(const uint8_t *bytes, uint32_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* Two words of a structure, one not far from the other. */
static bool read_two(const struct request_names *n, uint64_t address, uint32_t first,
		     uint32_t second, uint64_t ret[2])
{
	uint32_t low = first < second ? first : second, far = first < second ? second : first;
	uint8_t bytes[REQUEST_BYTES];

	if (far - low + 8 > sizeof(bytes) || !read_at(n, address + low, bytes, far - low + 8))
		return false;
	ret[0] = word_at(bytes, first - low);
	ret[1] = word_at(bytes, second - low);
	return true;
}

/* Texts that are read in one call. */
struct texts {
	struct target_range ranges[3];
	struct part *parts[3];
	size_t count;
};

static void want_text(struct texts *texts, const uint64_t string[2], size_t most, struct part *part)
{
	size_t length = string[1] < most ? string[1] : most;

	if (!length)
		return;
	texts->parts[texts->count] = part;
	texts->ranges[texts->count++] = (struct target_range){string[0], length, part->text};
}

static void read_texts(const struct request_names *n, const struct texts *texts)
{
	size_t done = 0;

	if (error_dropped(target_read_ranges(n->t, texts->ranges, texts->count, &done)))
		return;
	for (size_t i = 0; i < done; i++)
		texts->parts[i]->length = texts->ranges[i].size;
}

static bool is_method(const struct part *method)
{
	for (size_t i = 0; i < method->length; i++)
		if (method->text[i] < '!' || method->text[i] > '~')
			return false;
	return method->length;
}

/* A path's beginning stands for a longer one. */
static void want_path(const struct request_names *n, const struct request_layout *l,
		      struct texts *texts, struct found *ret)
{
	uint64_t string[2];

	if (n->paths && read_at(n, ret->url + l->path, string, sizeof(string)))
		want_text(texts, string, MAX_PATH, &ret->path);
}

static void want_route(const struct request_names *n, const struct request_layout *l,
		       const uint8_t *request, struct texts *texts, struct found *ret)
{
	uint64_t string[2] = {0}, pattern;

	if (l->pattern != NO_FIELD) {
		memcpy(string, request + l->pattern, sizeof(string));
	} else if (l->pat != NO_FIELD) {
		pattern = word_at(request, l->pat);
		if (!pattern || !read_at(n, pattern, string, sizeof(string)))
			return;
	}
	want_text(texts, string, MAX_ROUTE, &ret->route);
}

static bool take_request(const struct request_names *n, const struct request_layout *l,
			 uint64_t address, struct found *ret)
{
	uint8_t bytes[REQUEST_BYTES];
	struct texts texts = {.count = 0};
	uint64_t string[2];

	if (!read_at(n, address, bytes, l->bytes))
		return false;
	ret->url = word_at(bytes, l->url);
	ret->header = word_at(bytes, l->header);
	memcpy(string, bytes + l->method, sizeof(string));
	want_text(&texts, string, MAX_METHOD, &ret->method);
	want_route(n, l, bytes, &texts, ret);
	want_path(n, l, &texts, ret);
	read_texts(n, &texts);
	return is_method(&ret->method);
}

static bool take_stream(const struct request_names *n, uint64_t word, struct found *ret)
{
	const struct grpc_layout *l = &n->layouts.grpc;
	struct texts texts = {.count = 0};
	uint64_t stream = word, string[2];

	if (l->stream != NO_FIELD && !read_word(n, word + l->stream, &stream))
		return false;
	if (!read_at(n, stream + l->method, string, sizeof(string)))
		return false;
	memcpy(ret->method.text, "gRPC", 4);
	ret->method.length = 4;
	want_text(&texts, string, MAX_ROUTE, &ret->route);
	read_texts(n, &texts);
	if (n->ids && !read_word(n, stream + l->context + 8, &ret->context))
		ret->context = 0;
	return ret->route.length;
}

/* False: it has none, or nobody wants them. */
static bool find_ids(const struct request_names *n, struct found *ret)
{
	enum go_map_kind kind = n->layouts.map_kind;
	struct trace_ids ids;

	if (!n->ids || !(ret->context ? request_context_ids(n->t, kind, ret->context, &ids)
				      : request_header_ids(n->t, kind, ret->header, &ids)))
		return false;
	memcpy(ret->trace.text, ids.trace, sizeof(ids.trace));
	memcpy(ret->span.text, ids.span, sizeof(ids.span));
	ret->trace.length = sizeof(ids.trace);
	ret->span.length = sizeof(ids.span);
	return true;
}

/* ---- what a word leads to ---- */

static const struct request_layout *layout_of(const struct request_names *n,
					      const struct server_code *code)
{
	return code->serving == SERVES_HTTP2 && n->layouts.http2[code->layout].is_embedded
		       ? &n->layouts.embedded
		       : &n->layouts.request;
}

/* The word is a *conn: its response leads back to it. */
static bool prove_http1(const struct request_names *n, uint64_t word, uint64_t *ret)
{
	const struct http1_layout *l = &n->layouts.http1;
	uint64_t response, of[2];

	if (!read_word(n, word + l->current, &response) ||
	    !read_two(n, response, l->conn, l->request, of) || of[0] != word)
		return false;
	*ret = of[1];
	return true;
}

/* The word is a *responseWriter: its state and its stream have one connection. */
static bool prove_http2(const struct request_names *n, const struct http2_layout *l, uint64_t word,
			uint64_t *ret)
{
	uint64_t state, of[2], of_stream;

	if (!read_word(n, word, &state) || !read_two(n, state, l->conn, l->stream, of) || !of[0] ||
	    !read_word(n, of[1] + l->of_stream, &of_stream) || of_stream != of[0])
		return false;
	*ret = state + l->request;
	return l->is_embedded || read_word(n, state + l->request, ret);
}

/* The word is a stream: the type of its transport says so. */
static bool prove_grpc(const struct request_names *n, uint64_t word)
{
	const struct grpc_layout *l = &n->layouts.grpc;
	uint64_t itab, type;

	return read_word(n, word + l->transport, &itab) && read_word(n, itab + 8, &type) && type &&
	       (type == l->transports[0] || type == l->transports[1]);
}

static bool try_word(const struct request_names *n, const struct server_code *code, uint64_t word,
		     struct found *ret)
{
	uint64_t request;

	*ret = nothing;
	if (code->serving == SERVES_GRPC)
		return prove_grpc(n, word) && take_stream(n, word, ret);
	if (code->serving == SERVES_HTTP1
		    ? !prove_http1(n, word, &request)
		    : !prove_http2(n, &n->layouts.http2[code->layout], word, &request))
		return false;
	return take_request(n, layout_of(n, code), request, ret);
}

/* ---- the word on the stack ---- */

static bool try_known(struct request_names *n, const struct server_code *code, uint64_t goid,
		      struct found *ret)
{
	const uint64_t *word = map_find(&n->known, goid);

	return word && *word && try_word(n, code, *word, ret);
}

static void know(struct request_names *n, uint64_t goid, uint64_t word)
{
	uint64_t *place;

	if (n->known.count >= MOST_KNOWN)
		map_release(&n->known);
	place = map_at(&n->known, goid);
	if (place)
		*place = word;
}

static bool try_places(struct request_names *n, const struct server_code *code,
		       const struct request_server *server, struct found *ret)
{
	for (size_t i = 0; i < PLACES; i++) {
		uint64_t place = n->places[code->serving].at[i], word;

		if (!place || !read_word(n, server->stack_end - place, &word) ||
		    !try_word(n, code, word, ret))
			continue;
		know(n, server->goid, word);
		return true;
	}
	return false;
}

/* Pointers out of the stack. */
static bool may_point(uint64_t word, uint64_t stack_end)
{
	return word >= 1 << 16 && !(word & 7) && word < 1ull << 47 &&
	       (word >= stack_end || word < stack_end - END_BYTES);
}

static bool search(struct request_names *n, const struct server_code *code,
		   const struct request_server *server, struct found *ret)
{
	uint64_t words[WORDS], last = 0;

	if (n->searches >= MOST_SEARCHES ||
	    !read_at(n, server->stack_end - END_BYTES, words, sizeof(words)))
		return false;
	n->searches++;
	for (size_t i = WORDS; i-- > 0;) {
		if (!may_point(words[i], server->stack_end) || words[i] == last)
			continue;
		last = words[i];
		if (!try_word(n, code, words[i], ret))
			continue;
		add_place(&n->places[code->serving], code, END_BYTES - i * 8);
		know(n, server->goid, words[i]);
		return true;
	}
	return false;
}

/* ---- a copy of the request ---- */

/* The word is a request with the same URL and header. */
static bool is_copy(const struct request_names *n, uint64_t word, const struct found *found)
{
	const struct request_layout *l = &n->layouts.request;
	uint64_t of[2];

	return read_two(n, word, l->url, l->header, of) && of[0] == found->url &&
	       of[1] == found->header;
}

/* It is one, and has a route. */
static bool try_copy(const struct request_names *n, uint64_t word, struct found *ret)
{
	const struct request_layout *l = &n->layouts.request;
	struct texts texts = {.count = 0};
	uint8_t bytes[REQUEST_BYTES];

	if (!is_copy(n, word, ret) || !read_at(n, word, bytes, l->bytes))
		return false;
	want_route(n, l, bytes, &texts, ret);
	read_texts(n, &texts);
	return ret->route.length;
}

static void search_copy(struct request_names *n, const struct server_code *code, uint64_t stack_end,
			struct found *ret)
{
	uint64_t words[WORDS], last = 0;
	size_t found = 0;

	if (n->copy_searches >= MOST_COPY_SEARCHES ||
	    !read_at(n, stack_end - END_BYTES, words, sizeof(words)))
		return;
	n->copy_searches++;
	for (size_t i = WORDS; i-- > 0 && !ret->route.length;) {
		if (!may_point(words[i], stack_end) || words[i] == last)
			continue;
		last = words[i];
		if (try_copy(n, words[i], ret) ||
		    (!found && layout_of(n, code) == &n->layouts.embedded &&
		     is_copy(n, words[i], ret)))
			found = END_BYTES - i * 8;
	}
	if (found)
		add_place(&n->copies, code, found);
}

/* Only the mux of net/http writes a route into a request. */
static bool wants_copy(const struct request_names *n, const struct server_code *code,
		       const struct found *found)
{
	const struct request_layout *l = &n->layouts.request;

	return code->serving != SERVES_GRPC && !found->route.length && found->url &&
	       found->header && (l->pattern != NO_FIELD || l->pat != NO_FIELD);
}

static bool try_copies(const struct request_names *n, uint64_t stack_end, struct found *ret)
{
	uint64_t word;

	for (size_t i = 0; i < PLACES; i++)
		if (n->copies.at[i] && read_word(n, stack_end - n->copies.at[i], &word) &&
		    try_copy(n, word, ret))
			return true;
	return false;
}

/* ---- all of it ---- */

/* Of the servers' functions on a stack the outermost counts. */
static const struct server_code *code_of(struct request_names *n, const struct stacks *stacks,
					 uint32_t number)
{
	uint64_t *known = map_at(&n->serving, number);
	const struct request_layouts *l = &n->layouts;
	struct stack stack;

	if (!known)
		return NULL;
	if (*known)
		return *known > 1 ? &l->codes[*known - 2] : NULL;
	*known = 1;
	stack = stacks_get(stacks, number);
	for (uint32_t i = 0; i < stack.count; i++)
		for (size_t k = 0; k < l->code_count; k++) {
			uint64_t pc = stack_pc_address(stack.pcs[i]);

			if (pc >= l->codes[k].start && pc < l->codes[k].end)
				*known = k + 2;
		}
	return *known > 1 ? &l->codes[*known - 2] : NULL;
}

/* The ids are another one's in each request, so they count as such. */
static struct error *must_check add_parts(const struct found *found, struct label_sets *sets,
					  uint32_t *labels)
{
	const struct part *parts[] = {&found->method, &found->route, &found->path, &found->trace,
				      &found->span};
	struct label_bytes items[ARRAY_SIZE(parts)];
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i]->length)
			items[count++] = (struct label_bytes){parts[i]->key, parts[i]->text,
							      parts[i]->length};
	return label_sets_add(sets, *labels, items, count, labels);
}

static bool may_serve(const struct server_code *code, const struct request_server *server)
{
	return code && server->goid != MAP_NO_KEY && server->stack_end >= END_BYTES;
}

bool request_names_find(struct request_names *n, const struct stacks *stacks,
			const struct request_server *server)
{
	const struct server_code *code = code_of(n, stacks, server->stack);
	struct found *found = &n->latest;

	if (!may_serve(code, server))
		return false;
	if (!try_known(n, code, server->goid, found) && !try_places(n, code, server, found) &&
	    !search(n, code, server, found))
		return false;
	if (wants_copy(n, code, found) && !try_copies(n, server->stack_end, found))
		search_copy(n, code, server->stack_end, found);
	return true;
}

bool request_names_find_ids(struct request_names *n)
{
	return find_ids(n, &n->latest);
}

void request_names_forget_ids(struct request_names *n)
{
	n->latest.trace.length = n->latest.span.length = 0;
}

struct error *request_names_add(const struct request_names *n, struct label_sets *sets,
				uint32_t *labels)
{
	return add_parts(&n->latest, sets, labels);
}

/* ---- goroutines that run ---- */

/* Where the request is of which the server's own record serves others later. */
static struct served_place place_of_copy(const struct request_names *n)
{
	const struct places *p = &n->copies;

	for (size_t i = 0; i < PLACES; i++)
		if (p->codes[i] && p->codes[i]->serving == SERVES_HTTP2)
			return (struct served_place){p->at[i], n->layouts.request.url, 0};
	return (struct served_place){0};
}

void request_names_places(const struct request_names *n, struct served_place ret[SERVED_PLACES])
{
	const struct request_layouts *l = &n->layouts;

	for (size_t i = 0; i < SERVINGS; i++) {
		const struct places *p = &n->places[i];
		const struct server_code *code = p->codes[p->last];

		ret[i] = (struct served_place){.place = code ? p->at[p->last] : 0};
		if (code && layout_of(n, code) == &n->layouts.embedded)
			ret[i] = place_of_copy(n);
		if (!code || i == SERVES_GRPC || layout_of(n, code) == &n->layouts.embedded)
			continue;
		ret[i].first = i == SERVES_HTTP1 ? l->http1.current : 0;
		ret[i].second =
			i == SERVES_HTTP1 ? l->http1.request : l->http2[code->layout].request;
	}
}

/* The collector adds 2 to sweepgen before it frees what it has found to be garbage. 0: unknown. */
static uint32_t sweepgen_now(const struct request_names *n)
{
	uint32_t generation = 0;

	if (!n->heap || error_dropped(target_read_u32(n->t, heap_at_sweepgen(&n->numbers, n->heap),
						      &generation)))
		return 0;
	return generation;
}

void request_names_begin_samples(struct request_names *n)
{
	n->sweeps[0] = n->sweeps[1];
	n->sweeps[1] = sweepgen_now(n);
}

/* Since the last reading of samples began, and with that since before the sample at hand: so what
 * it led to then has not become something else. */
static bool nothing_was_freed(const struct request_names *n)
{
	return n->sweeps[0] && sweepgen_now(n) == n->sweeps[0];
}

/* Nobody writes to a request or response that was served. */
static bool prove_served_http1(const struct request_names *n, const struct served_words *s)
{
	const struct http1_layout *l = &n->layouts.http1;
	uint64_t of[2];

	return read_two(n, s->first, l->conn, l->request, of) && of[0] == s->word &&
	       of[1] == s->second;
}

/* The state of a response serves others later, a request does not. It says which protocol it is. */
static bool prove_served_http2(const struct request_names *n, const struct server_code *code,
			       const struct served_words *s, uint64_t *ret)
{
	const struct request_layout *l = &n->layouts.request;
	bool is_copy = n->layouts.http2[code->layout].is_embedded;
	uint64_t url, major;

	*ret = is_copy ? s->word : s->second;
	if (!read_word(n, *ret + l->url, &url) || !read_word(n, *ret + l->major, &major))
		return false;
	return major == 2 && (!is_copy || url == s->first);
}

static bool try_served(const struct request_names *n, const struct server_code *code,
		       const struct served_words *s, struct found *ret)
{
	uint64_t request = s->second;

	if (!s->word)
		return false;
	if (code->serving == SERVES_GRPC)
		return try_word(n, code, s->word, ret);
	if (code->serving == SERVES_HTTP1 ? !prove_served_http1(n, s)
					  : !prove_served_http2(n, code, s, &request))
		return false;
	*ret = nothing;
	return take_request(n, &n->layouts.request, request, ret);
}

struct error *request_names_add_served(struct request_names *n, const struct stacks *stacks,
				       const struct request_server *server,
				       const struct served_words served[SERVED_PLACES],
				       struct label_sets *sets, uint32_t *labels)
{
	const struct server_code *code = code_of(n, stacks, server->stack);
	struct found found;

	if (!may_serve(code, server) || !try_served(n, code, &served[code->serving], &found))
		return NULL;
	if (wants_copy(n, code, &found))
		try_copies(n, server->stack_end, &found);
	find_ids(n, &found);
	return nothing_was_freed(n) ? add_parts(&found, sets, labels) : NULL;
}
