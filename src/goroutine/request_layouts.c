#include "goroutine/request_layouts.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "golayout/map_kind.h"
#include "image/type_data.h"

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

/* From Go 1.23 on a request has its route as a string; in Go 1.22, it has a pattern that begins
 * with that. */
static void find_pattern(const struct type_data *types, uint64_t request,
			 struct request_layout *ret)
{
	uint64_t pattern = type_data_structure(types, "net/http", "http.pattern");
	uint32_t text;

	ret->pattern = ret->pat = NO_FIELD;
	if (type_data_field(types, request, "Pattern", &ret->pattern))
		return;
	ret->pattern = NO_FIELD;
	if (!type_data_field(types, request, "pat", &ret->pat) ||
	    !type_data_field(types, pattern, "str", &text) || text)
		ret->pat = NO_FIELD;
}

/* The largest field is a string. */
static uint32_t bytes_of(const struct request_layout *l)
{
	const uint32_t at[] = {l->method, l->url, l->header, l->major, l->pattern, l->pat};
	uint32_t bytes = 0;

	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		if (at[i] != NO_FIELD && at[i] + 16 > bytes)
			bytes = at[i] + 16;
	return bytes;
}

static bool find_request(const struct type_data *types, const char *package, const char *name,
			 struct request_layout *ret)
{
	uint64_t request = type_data_structure(types, package, name);
	uint64_t url = type_data_structure(types, "net/url", "url.URL");

	if (!FIELDS(types, request, NAMES("Method", "URL", "Header", "ProtoMajor"), &ret->method,
		    &ret->url, &ret->header, &ret->major) ||
	    !FIELDS(types, url, NAMES("Path"), &ret->path))
		return false;
	find_pattern(types, request, ret);
	ret->bytes = bytes_of(ret);
	return ret->bytes <= REQUEST_BYTES;
}

static bool find_http1(const struct type_data *types, struct http1_layout *ret)
{
	uint64_t conn = type_data_structure(types, "net/http", "http.conn");
	uint64_t response = type_data_structure(types, "net/http", "http.response");

	if (!FIELDS(types, conn, NAMES("curReq"), &ret->current) ||
	    !FIELDS(types, response, NAMES("conn", "req"), &ret->conn, &ret->request))
		return false;
	/* An atomic.Value: a type and a pointer. */
	if (types->minor < 19)
		ret->current += 8;
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

	ret->stream = NO_FIELD;
	ret->transports[0] = transport_type(types, "transport.http2Server");
	ret->transports[1] = transport_type(types, "transport.serverHandlerTransport");
	if (server && !FIELDS(types, server, NAMES("Stream"), &ret->stream))
		return false;
	return FIELDS(types, server ? server : stream, NAMES("st"), &ret->transport) &&
	       FIELDS(types, stream, NAMES("method", "ctx"), &ret->method, &ret->context);
}

/* ---- code ---- */

static const struct {
	const char *name;
	enum serving serving;
	const char *package, *prefix; /* of HTTP/2 */
} servers[] = {
	{"net/http.serverHandler.ServeHTTP", SERVES_HTTP1},
	{"net/http.(*http2serverConn).runHandler", SERVES_HTTP2, "net/http", "http.http2"},
	{"net/http/internal/http2.(*serverConn).runHandler", SERVES_HTTP2,
	 "net/http/internal/http2", "http2."},
	{"golang.org/x/net/http2.(*serverConn).runHandler", SERVES_HTTP2, "golang.org/x/net/http2",
	 "http2."},
	{"google.golang.org/grpc.(*Server).handleStream", SERVES_GRPC},
};

static bool is_named(const char *name, const char *wanted)
{
	size_t n = strlen(name), w = strlen(wanted);

	return n >= w && !strcmp(name + n - w, wanted) && (n == w || name[n - w - 1] == '/');
}

/* Of the kinds whose layout is known. */
static bool find_layout(const struct type_data *types, struct request_layouts *l, size_t server,
			uint32_t layout)
{
	struct http2_layout *http2 = &l->http2[layout];

	if (servers[server].serving == SERVES_HTTP1)
		return find_http1(types, &l->http1);
	if (servers[server].serving == SERVES_GRPC)
		return find_grpc(types, &l->grpc);
	/* From Go 1.27 on its package knows nothing of http.Request. */
	http2->is_embedded = server == 2;
	if (http2->is_embedded &&
	    !find_request(types, servers[server].package, "http2.ServerRequest", &l->embedded))
		return false;
	return find_http2(types, servers[server].package, servers[server].prefix, http2);
}

static void add_code(struct request_layouts *l, const struct type_data *types,
		     const struct go_func *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(servers) && l->code_count < MOST_CODES; i++) {
		uint32_t layout = i >= 1 && i <= MOST_HTTP2 ? i - 1 : 0;

		if (!is_named(f->name, servers[i].name) || !find_layout(types, l, i, layout))
			continue;
		l->codes[l->code_count++] =
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

struct error *request_layouts_find(struct target *t, const struct image *img,
				   const struct golayout *lay, struct request_layouts *ret)
{
	_cleanup_type_data_ struct type_data types = {0};
	struct error *err;
	struct go_func f;

	*ret = (struct request_layouts){.map_kind = golayout_map_kind(lay, img)};
	if (!has_server(img))
		return NULL;
	err = type_data_read(t, img, lay->minor, &types);
	if (err || !find_request(&types, "net/http", "http.Request", &ret->request))
		return err;
	for (size_t i = 0; i < img->functions.count; i++)
		if (pclntab_function(&img->functions, i, &f) && may_serve(f.name))
			add_code(ret, &types, &f);
	return NULL;
}
