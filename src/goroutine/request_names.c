#include "goroutine/request_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "image/type_data.h"

enum { MAX_METHOD = 16, MAX_ROUTE = 200, MAX_PATH = 200, REQUEST_BYTES = 512 };

/* The outer end of a stack in which a word is looked for. */
enum { END_BYTES = 2048, WORDS = END_BYTES / 8 };

/* Whole ends that are searched in a recording: afterwards only known places are tried. Places of
 * each kind that are known: the latest ones. */
enum { MOST_SEARCHES = 4096, PLACES = 4 };

/* Goroutines whose word is known; beyond it, all are forgotten. */
enum { MOST_KNOWN = 1 << 17 };

enum serving { NOTHING, HTTP1, HTTP2, GRPC, SERVINGS };

/* Offsets of fields; of those that a version does not have, NONE. */
#define NONE UINT32_MAX

struct http1_layout {
	uint32_t current;       /* in conn: the pointer to the response */
	uint32_t conn, request; /* in response */
};

struct http2_layout {
	uint32_t stream, conn, request; /* in responseWriterState */
	uint32_t of_stream;             /* in stream: the connection */
	bool is_embedded;               /* the request is in the state (Go 1.27) */
};

struct grpc_layout {
	uint32_t stream; /* in what is on the stack: a pointer to what has the method; or NONE */
	uint32_t transport, method;
	uint64_t transports[2]; /* types; 0: the program does not have it */
};

struct request_layout {
	uint32_t method, url, pattern;
	uint32_t pat;   /* Go 1.22: a pointer to a string */
	uint32_t path;  /* in url.URL */
	uint32_t bytes; /* up to the end of these */
};

struct server_code {
	enum serving serving;
	uint64_t start, end;
	uint32_t layout; /* of HTTP/2: in names->http2 */
};

enum { MOST_CODES = 8, MOST_HTTP2 = 3 };

struct request_names {
	struct target *t;
	bool paths;
	struct server_code codes[MOST_CODES];
	size_t code_count;
	struct http1_layout http1;
	struct http2_layout http2[MOST_HTTP2];
	struct grpc_layout grpc;
	struct request_layout request, request2; /* of HTTP/2, where its own is embedded */
	struct map serving;                /* stack -> index in codes + 2; 1: serves nothing */
	struct map known;                  /* goid -> the word on its stack */
	uint64_t places[SERVINGS][PLACES]; /* from the stack's end; 0: none yet */
	size_t next_place[SERVINGS];
	size_t searches;
};

/* ---- layouts ---- */

static bool fields(const struct type_data *types, uint64_t type, const char *const *names,
		   uint32_t *const *ret, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!type || !type_data_field(types, type, names[i], ret[i]))
			return false;
	return true;
}

#define FIELDS(types, type, names, ...)                                                   \
	fields(types, type, (const char *const[])names, (uint32_t *const[]){__VA_ARGS__}, \
	       sizeof((const char *const[])names) / sizeof(char *))
#define NAMES(...)          \
	{                   \
		__VA_ARGS__ \
	}

static bool find_request(const struct type_data *types, const char *package, const char *name,
			 struct request_layout *ret)
{
	uint64_t request = type_data_structure(types, package, name);
	uint64_t pattern = type_data_structure(types, "net/http", "http.pattern");
	uint64_t url = type_data_structure(types, "net/url", "url.URL");
	uint32_t text, end;

	*ret = (struct request_layout){.pattern = NONE, .pat = NONE};
	if (!FIELDS(types, request, NAMES("Method", "URL"), &ret->method, &ret->url) ||
	    !FIELDS(types, url, NAMES("Path"), &ret->path))
		return false;
	if (!type_data_field(types, request, "Pattern", &ret->pattern)) {
		ret->pattern = NONE;
		if (!type_data_field(types, request, "pat", &ret->pat) ||
		    !type_data_field(types, pattern, "str", &text) || text)
			ret->pat = NONE;
	}
	end = ret->method > ret->url ? ret->method : ret->url;
	end = ret->pattern != NONE && ret->pattern > end ? ret->pattern : end;
	end = ret->pat != NONE && ret->pat > end ? ret->pat : end;
	ret->bytes = end + 16;
	return end + 16 <= REQUEST_BYTES;
}

static bool find_http1(const struct type_data *types, struct request_names *n)
{
	uint64_t conn = type_data_structure(types, "net/http", "http.conn");
	uint64_t response = type_data_structure(types, "net/http", "http.response");

	if (!FIELDS(types, conn, NAMES("curReq"), &n->http1.current) ||
	    !FIELDS(types, response, NAMES("conn", "req"), &n->http1.conn, &n->http1.request))
		return false;
	/* An atomic.Value: a type and a pointer. */
	if (types->minor < 19)
		n->http1.current += 8;
	return true;
}

static bool find_http2(const struct type_data *types, const char *package, const char *prefix,
		       struct http2_layout *ret)
{
	char name[3][64];
	static const char *const ends[] = {"responseWriter", "responseWriterState", "stream"};
	uint64_t writer, state, stream;
	uint32_t first;

	for (int i = 0; i < 3; i++)
		snprintf(name[i], sizeof(name[i]), "%s%s", prefix, ends[i]);
	writer = type_data_structure(types, package, name[0]);
	state = type_data_structure(types, package, name[1]);
	stream = type_data_structure(types, package, name[2]);
	return FIELDS(types, writer, NAMES("rws"), &first) && !first &&
	       FIELDS(types, state, NAMES("stream", "conn", "req"), &ret->stream, &ret->conn,
		      &ret->request) &&
	       FIELDS(types, stream, NAMES("sc"), &ret->of_stream);
}

static const char transport[] = "google.golang.org/grpc/internal/transport";

static uint64_t transport_type(const struct type_data *types, const char *name)
{
	uint64_t type = type_data_structure(types, transport, name);

	return type ? type_data_pointer(types, type) : 0;
}

static bool find_grpc(const struct type_data *types, struct grpc_layout *ret)
{
	uint64_t stream = type_data_structure(types, transport, "transport.Stream");
	uint64_t server = type_data_structure(types, transport, "transport.ServerStream");

	ret->stream = NONE;
	ret->transports[0] = transport_type(types, "transport.http2Server");
	ret->transports[1] = transport_type(types, "transport.serverHandlerTransport");
	if (server && !FIELDS(types, server, NAMES("Stream"), &ret->stream))
		return false;
	return FIELDS(types, server ? server : stream, NAMES("st"), &ret->transport) &&
	       FIELDS(types, stream, NAMES("method"), &ret->method);
}

/* ---- code ---- */

static const struct {
	const char *name;
	enum serving serving;
	const char *package, *prefix; /* of HTTP/2 */
} servers[] = {
	{"net/http.serverHandler.ServeHTTP", HTTP1},
	{"net/http.(*http2serverConn).runHandler", HTTP2, "net/http", "http.http2"},
	{"net/http/internal/http2.(*serverConn).runHandler", HTTP2, "net/http/internal/http2",
	 "http2."},
	{"golang.org/x/net/http2.(*serverConn).runHandler", HTTP2, "golang.org/x/net/http2",
	 "http2."},
	{"google.golang.org/grpc.(*Server).handleStream", GRPC},
};

static bool is_named(const char *name, const char *wanted)
{
	size_t n = strlen(name), w = strlen(wanted);

	return n >= w && !strcmp(name + n - w, wanted) && (n == w || name[n - w - 1] == '/');
}

/* Of the kinds whose layout is known. */
static bool find_layout(const struct type_data *types, struct request_names *n, size_t server,
			uint32_t layout)
{
	struct http2_layout *l = &n->http2[layout];

	if (servers[server].serving == HTTP1)
		return find_http1(types, n);
	if (servers[server].serving == GRPC)
		return find_grpc(types, &n->grpc);
	/* From Go 1.27 on its package knows nothing of http.Request. */
	l->is_embedded = server == 2;
	if (l->is_embedded &&
	    !find_request(types, servers[server].package, "http2.ServerRequest", &n->request2))
		return false;
	return find_http2(types, servers[server].package, servers[server].prefix, l);
}

static void add_code(struct request_names *n, const struct type_data *types,
		     const struct go_func *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(servers) && n->code_count < MOST_CODES; i++) {
		uint32_t layout = i >= 1 && i <= MOST_HTTP2 ? i - 1 : 0;

		if (!is_named(f->name, servers[i].name) || !find_layout(types, n, i, layout))
			continue;
		n->codes[n->code_count++] =
			(struct server_code){servers[i].serving, f->entry, f->end, layout};
	}
}

static bool may_serve(const char *name)
{
	const char *last = strrchr(name, '.');

	return last && (!strcmp(last, ".ServeHTTP") || !strcmp(last, ".runHandler") ||
			!strcmp(last, ".handleStream"));
}

/* Types are some MB: most programs have none of these functions. */
static bool has_server(const struct image *img)
{
	struct go_func f;

	for (size_t i = 0; i < img->functions.count; i++) {
		if (!pclntab_function(&img->functions, i, &f) || !may_serve(f.name))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(servers); k++)
			if (is_named(f.name, servers[k].name))
				return true;
	}
	return false;
}

struct error *request_names_open(struct target *t, const struct image *img, int minor, bool paths,
				 struct request_names **ret)
{
	_cleanup_type_data_ struct type_data types = {0};
	struct request_names *n;
	struct error *err = NULL;
	struct go_func f;

	*ret = NULL;
	if (!has_server(img))
		return NULL;
	err = type_data_read(t, img, minor, &types);
	if (err)
		return err;
	n = calloc(1, sizeof(*n));
	if (!n)
		return &error_no_memory;
	n->t = t;
	n->paths = paths;
	if (find_request(&types, "net/http", "http.Request", &n->request))
		for (size_t i = 0; i < img->functions.count; i++)
			if (pclntab_function(&img->functions, i, &f) && may_serve(f.name))
				add_code(n, &types, &f);
	if (n->code_count)
		*ret = n;
	else
		free(n);
	return NULL;
}

void request_names_close(struct request_names *n)
{
	if (!n)
		return;
	map_release(&n->serving);
	map_release(&n->known);
	free(n);
}

/* ---- the target's memory ---- */

/* A part that was found, and its text. */
struct part {
	const char *key;
	char text[MAX_PATH];
	size_t length;
};

struct found {
	struct part method, route, path;
};

static bool read_at(const struct request_names *n, uint64_t address, void *ret, size_t size)
{
	return address >= 4096 && !(address & 7) &&
	       !error_dropped(target_read(n->t, address, ret, size));
}

static bool read_word(const struct request_names *n, uint64_t address, uint64_t *ret)
{
	return read_at(n, address, ret, sizeof(*ret));
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
		      const uint8_t *request, struct texts *texts, struct found *ret)
{
	uint64_t string[2], url;

	memcpy(&url, request + l->url, sizeof(url));
	if (n->paths && read_at(n, url + l->path, string, sizeof(string)))
		want_text(texts, string, MAX_PATH, &ret->path);
}

static void want_route(const struct request_names *n, const struct request_layout *l,
		       const uint8_t *request, struct texts *texts, struct found *ret)
{
	uint64_t string[2] = {0}, pattern;

	if (l->pattern != NONE) {
		memcpy(string, request + l->pattern, sizeof(string));
	} else if (l->pat != NONE) {
		memcpy(&pattern, request + l->pat, sizeof(pattern));
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
	memcpy(string, bytes + l->method, sizeof(string));
	want_text(&texts, string, MAX_METHOD, &ret->method);
	want_route(n, l, bytes, &texts, ret);
	want_path(n, l, bytes, &texts, ret);
	read_texts(n, &texts);
	return is_method(&ret->method);
}

/* Two words of a structure, one not far from the other. */
static bool read_two(const struct request_names *n, uint64_t address, uint32_t first,
		     uint32_t second, uint64_t ret[2])
{
	uint32_t low = first < second ? first : second, far = first < second ? second : first;
	uint8_t bytes[REQUEST_BYTES];

	if (far - low + 8 > sizeof(bytes) || !read_at(n, address + low, bytes, far - low + 8))
		return false;
	memcpy(&ret[0], bytes + first - low, sizeof(ret[0]));
	memcpy(&ret[1], bytes + second - low, sizeof(ret[1]));
	return true;
}

/* The word is a *conn: its response leads back to it. */
static bool try_http1(const struct request_names *n, uint64_t word, struct found *ret)
{
	const struct http1_layout *l = &n->http1;
	uint64_t response, of[2];

	return read_word(n, word + l->current, &response) &&
	       read_two(n, response, l->conn, l->request, of) && of[0] == word &&
	       take_request(n, &n->request, of[1], ret);
}

/* The word is a *responseWriter: its state and its stream have one connection. */
static bool try_http2(const struct request_names *n, const struct http2_layout *l, uint64_t word,
		      struct found *ret)
{
	uint64_t state, of[2], of_stream, request;

	if (!read_word(n, word, &state) || !read_two(n, state, l->conn, l->stream, of) || !of[0] ||
	    !read_word(n, of[1] + l->of_stream, &of_stream) || of_stream != of[0])
		return false;
	if (l->is_embedded)
		return take_request(n, &n->request2, state + l->request, ret);
	return read_word(n, state + l->request, &request) &&
	       take_request(n, &n->request, request, ret);
}

/* The word is a stream: the type of its transport says so. */
static bool try_grpc(const struct request_names *n, uint64_t word, struct found *ret)
{
	const struct grpc_layout *l = &n->grpc;
	struct texts texts = {.count = 0};
	uint64_t itab, type, stream = word, string[2];

	if (!read_word(n, word + l->transport, &itab) || !read_word(n, itab + 8, &type) || !type ||
	    (type != l->transports[0] && type != l->transports[1]))
		return false;
	if (l->stream != NONE && !read_word(n, word + l->stream, &stream))
		return false;
	if (!read_at(n, stream + l->method, string, sizeof(string)))
		return false;
	memcpy(ret->method.text, "gRPC", 4);
	ret->method.length = 4;
	want_text(&texts, string, MAX_ROUTE, &ret->route);
	read_texts(n, &texts);
	return ret->route.length;
}

static bool try_word(const struct request_names *n, const struct server_code *code, uint64_t word,
		     struct found *ret)
{
	*ret = (struct found){.method.key = "method", .route.key = "route", .path.key = "path"};
	if (code->serving == HTTP1)
		return try_http1(n, word, ret);
	if (code->serving == HTTP2)
		return try_http2(n, &n->http2[code->layout], word, ret);
	return try_grpc(n, word, ret);
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
		uint64_t place = n->places[code->serving][i], word;

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
		n->places[code->serving][n->next_place[code->serving]++ % PLACES] =
			END_BYTES - i * 8;
		know(n, server->goid, words[i]);
		return true;
	}
	return false;
}

/* Of the servers' functions on a stack the outermost counts. */
static const struct server_code *code_of(struct request_names *n, const struct stacks *stacks,
					 uint32_t number)
{
	uint64_t *known = map_at(&n->serving, number);
	struct stack stack;

	if (!known)
		return NULL;
	if (*known)
		return *known > 1 ? &n->codes[*known - 2] : NULL;
	*known = 1;
	stack = stacks_get(stacks, number);
	for (uint32_t i = 0; i < stack.count; i++)
		for (size_t k = 0; k < n->code_count; k++) {
			uint64_t pc = stack_pc_address(stack.pcs[i]);

			if (pc >= n->codes[k].start && pc < n->codes[k].end)
				*known = k + 2;
		}
	return *known > 1 ? &n->codes[*known - 2] : NULL;
}

static struct error *must_check add_parts(const struct found *found, struct label_sets *sets,
					  uint32_t *labels)
{
	const struct part *parts[] = {&found->method, &found->route, &found->path};
	struct label_bytes items[ARRAY_SIZE(parts)];
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i]->length)
			items[count++] = (struct label_bytes){parts[i]->key, parts[i]->text,
							      parts[i]->length};
	return label_sets_add(sets, *labels, items, count, labels);
}

struct error *request_names_add(struct request_names *n, const struct stacks *stacks,
				const struct request_server *server, struct label_sets *sets,
				uint32_t *labels)
{
	const struct server_code *code = code_of(n, stacks, server->stack);
	struct found found;

	if (!code || server->goid == MAP_NO_KEY || server->stack_end < END_BYTES)
		return NULL;
	if (!try_known(n, code, server->goid, &found) && !try_places(n, code, server, &found) &&
	    !search(n, code, server, &found))
		return NULL;
	return add_parts(&found, sets, labels);
}
