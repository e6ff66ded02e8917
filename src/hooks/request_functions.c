#include "hooks/request_functions.h"

#include <string.h>

#include "base/array.h"
#include "golayout/map_kind.h"
#include "image/pclntab.h"
#include "image/type_data.h"

enum { OLDEST = GOLAYOUT_MIN_MINOR, NEWEST = GOLAYOUT_MAX_MINOR };

/* Fields, one within the other; a pointer leads on to the next. */
struct route_field {
	const char *package, *type, *field; /* NULL: no more */
	bool is_pointer;
};

static const struct route_field echo_path[] = {
	{"github.com/labstack/echo/v4", "echo.context", "path"},
	{NULL},
};
static const char gorilla[] = "github.com/gorilla/mux";
static const struct route_field gorilla_path[] = {
	{gorilla, "mux.Route", "routeConf"},
	{gorilla, "mux.routeConf", "regexp"},
	{gorilla, "mux.routeRegexpGroup", "path", true},
	{gorilla, "mux.routeRegexp", "template"},
	{NULL},
};

/* (*node).FindRoute(context, ...) has added the pattern to the context when it returns. */
static const char *const chi_packages[] = {"github.com/go-chi/chi/v5", "github.com/go-chi/chi"};

/*
 * serverHandler.ServeHTTP(w, r): the server, an interface and the request are in the first four
 * registers. The library's HTTP/2 calls it as well. (*serverConn).runHandler(w, r, handler): the
 * request is in the third. gRPC's (*Server).handleStream(transport, stream): the server, an
 * interface and the stream. WriteStatus(transport, stream, status) of its transports: the status is
 * in the third.
 *
 * A mux finds the pattern in a function whose results are a handler, in the first two
 * registers, and the pattern.
 */
static const struct request_function functions[] = {
	{"net/http.serverHandler.ServeHTTP", OLDEST, NEWEST, ENTRY_CALL, REQUEST_IN_FOURTH,
	 "names"},
	{"golang.org/x/net/http2.(*serverConn).runHandler", OLDEST, NEWEST, ENTRY_CALL,
	 REQUEST_IN_THIRD, "names"},
	{"google.golang.org/grpc.(*Server).handleStream", OLDEST, NEWEST, ENTRY_CALL,
	 REQUEST_OF_GRPC, "names"},
	{"net/http.(*response).WriteHeader", OLDEST, NEWEST, ENTRY_STATUS, 0, "a status"},
	{"net/http.(*http2responseWriterState).writeHeader", OLDEST, NEWEST, ENTRY_STATUS, 0,
	 "a status"},
	{"net/http/internal/http2.(*responseWriterState).writeHeader", OLDEST, NEWEST, ENTRY_STATUS,
	 0, "a status"},
	{"golang.org/x/net/http2.(*responseWriterState).writeHeader", OLDEST, NEWEST, ENTRY_STATUS,
	 0, "a status"},
	{"google.golang.org/grpc/internal/transport.(*http2Server).WriteStatus", OLDEST, NEWEST,
	 ENTRY_GRPC_STATUS, 0, "a status"},
	{"google.golang.org/grpc/internal/transport.(*http2Server).writeStatus", OLDEST, NEWEST,
	 ENTRY_GRPC_STATUS, 0, "a status"},
	{"google.golang.org/grpc/internal/transport.(*serverHandlerTransport).WriteStatus", OLDEST,
	 NEWEST, ENTRY_GRPC_STATUS, 0, "a status"},
	{"google.golang.org/grpc/internal/transport.(*serverHandlerTransport).writeStatus", OLDEST,
	 NEWEST, ENTRY_GRPC_STATUS, 0, "a status"},
	{"net/http.(*ServeMux).Handler", OLDEST, 21, ENTRY_ROUTE, 0, "a route"},
	{"net/http.(*ServeMux).findHandler", 22, NEWEST, ENTRY_ROUTE, 0, "a route"},
	{"net/http.(*serveMux121).findHandler", 22, NEWEST, ENTRY_ROUTE, 0, "a route"},
	{"github.com/gin-gonic/gin.(*Engine).handleHTTPRequest", OLDEST, NEWEST, ENTRY_ROUTE_GIN, 0,
	 "a route"},
	{"github.com/labstack/echo/v4.(*Echo).add.func1", OLDEST, NEWEST, ENTRY_ROUTE_FIELD, 0,
	 "a route", echo_path},
	{"github.com/gorilla/mux.requestWithRoute", OLDEST, NEWEST, ENTRY_ROUTE_FIELD, 0, "a route",
	 gorilla_path},
	{"github.com/gorilla/mux.requestWithRouteAndVars", OLDEST, NEWEST, ENTRY_ROUTE_FIELD, 0,
	 "a route", gorilla_path},
	{"github.com/go-chi/chi/v5.(*node).FindRoute", OLDEST, NEWEST, ENTRY_ROUTE_CHI, 0,
	 "a route"},
	{"github.com/go-chi/chi.(*node).FindRoute", OLDEST, NEWEST, ENTRY_ROUTE_CHI, 0, "a route"},
};

/* Also of a vendored package. */
static bool is_named(const char *name, const char *wanted)
{
	size_t n = strlen(name), w = strlen(wanted);

	if (n < w || strcmp(name + n - w, wanted) != 0)
		return false;
	return n == w || (name[n - w - 1] == '/' && strncmp(wanted, "net/http", 8) != 0);
}

/* There are 100,000 names. */
static bool may_be_one(const char *name)
{
	const char *last = strrchr(name, '.');

	return last && (!strcmp(last, ".ServeHTTP") || !strcmp(last, ".runHandler") ||
			!strcmp(last, ".WriteHeader") || !strcmp(last, ".writeHeader") ||
			!strcmp(last, ".Handler") || !strcmp(last, ".findHandler") ||
			!strcmp(last, ".handleStream") || !strcmp(last, ".WriteStatus") ||
			!strcmp(last, ".writeStatus") || !strcmp(last, ".FindRoute") ||
			!strcmp(last, ".handleHTTPRequest") || !strcmp(last, ".func1") ||
			!strncmp(last, ".requestWithRoute", 17));
}

const struct request_function *request_function_of(const char *name, int minor)
{
	for (size_t i = 0; may_be_one(name) && i < ARRAY_SIZE(functions); i++)
		if (minor >= functions[i].first && minor <= functions[i].last &&
		    is_named(name, functions[i].name))
			return &functions[i];
	return NULL;
}

/* A peer.Peer begins with its Addr, as the agent expects it (agent/agent_request.c). */
static void find_peer(const struct type_data *types, struct agent_http *ret)
{
	uint64_t peer = type_data_structure(types, "google.golang.org/grpc/peer", "peer.Peer");
	uint64_t address = type_data_structure(types, "net", "net.TCPAddr");
	uint32_t addr, ip, port, zone;

	if (!peer || !address || !type_data_field(types, peer, "Addr", &addr) || addr ||
	    !type_data_field(types, address, "IP", &ip) || ip ||
	    !type_data_field(types, address, "Port", &port) || port != 24 ||
	    !type_data_field(types, address, "Zone", &zone) || zone != 32)
		return;
	ret->grpc_peer = type_data_pointer(types, peer);
	ret->tcp_address = type_data_pointer(types, address);
}

/* Go to the end of the structure, which has fewer than 64 KB. */
bool request_function_field(const struct request_function *of, const struct type_data *types,
			    uint32_t *ret)
{
	uint32_t offset, sum = 0, pointer = 0;

	for (const struct route_field *f = of->field; f->field; f++) {
		uint64_t type = type_data_structure(types, f->package, f->type);

		if (!type || !type_data_field(types, type, f->field, &offset))
			return false;
		sum += offset;
		if (!f->is_pointer)
			continue;
		pointer = sum + 1;
		sum = 0;
	}
	*ret = AGENT_FIELD(pointer, sum);
	return sum < 1 << 16 && pointer < 1 << 16;
}

static void find_chi(const struct type_data *types, struct agent_http *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(chi_packages) && !ret->chi_pattern; i++) {
		uint64_t context = type_data_structure(types, chi_packages[i], "chi.Context");
		uint32_t one, all;

		if (context && type_data_field(types, context, "routePattern", &one) &&
		    type_data_field(types, context, "RoutePatterns", &all)) {
			ret->chi_pattern = one;
			ret->chi_patterns = all;
		}
	}
}

static void find_gin(const struct type_data *types, struct agent_http *ret)
{
	uint64_t context = type_data_structure(types, "github.com/gin-gonic/gin", "gin.Context");
	uint32_t path, engine;

	if (!context || !type_data_field(types, context, "fullPath", &path) ||
	    !type_data_field(types, context, "engine", &engine))
		return;
	ret->gin_path = path;
	ret->gin_engine = engine;
}

static bool has_their_types(const struct image *img)
{
	struct go_func f;

	for (size_t i = 0; i < img->functions.count; i++)
		if (pclntab_function(&img->functions, i, &f) &&
		    (strstr(f.name, "google.golang.org/grpc.(*Server).") ||
		     strstr(f.name, "github.com/go-chi/chi") ||
		     strstr(f.name, "github.com/gin-gonic/gin")))
			return true;
	return false;
}

/* What differs by version of grpc-go, of the compiler of protocol buffers, of chi and gin. */
static struct error *must_check other_layouts(struct target *t, const struct image *img,
					      const struct golayout *lay, struct agent_http *ret)
{
	_cleanup_type_data_ struct type_data types = {0};
	uint64_t status;
	struct error *err;

	if (!has_their_types(img))
		return NULL;
	err = type_data_read(t, img, lay->minor, &types);
	if (err)
		return err;
	find_peer(&types, ret);
	find_chi(&types, ret);
	find_gin(&types, ret);
	status = type_data_structure(&types, "google.golang.org/genproto/googleapis/rpc/status",
				     "status.Status");
	if (status && !type_data_field(&types, status, "Code", &ret->grpc_code))
		ret->grpc_code = 0;
	return NULL;
}

/*
 * The fields of http.Request up to RemoteAddr, and those of url.URL up to Path, are the same from
 * Go 1.17 to 1.27 (net/http/request.go, net/url/url.go). Behind them fields were added and moved.
 */
struct error *request_layout(struct target *t, const struct image *img, const struct golayout *lay,
			     struct agent_http *ret)
{
	*ret = (struct agent_http){
		.request_size = 192,
		.method = 0,
		.url = 16,
		.header = 56,
		.peer = 176,
		.url_size = 72,
		.path = 56,
		.map_kind = golayout_map_kind(lay, img),
	};
	return other_layouts(t, img, lay, ret);
}
