#include "hooks/request_functions.h"

#include <string.h>

#include "base/array.h"
#include "image/pclntab.h"
#include "image/type_data.h"

enum { OLDEST = GOLAYOUT_MIN_MINOR, NEWEST = GOLAYOUT_MAX_MINOR };

/*
 * serverHandler.ServeHTTP(w, r): the server, an interface and the request are in RAX, RBX, RCX and
 * RDI. The library's HTTP/2 calls it as well. (*serverConn).runHandler(w, r, handler): RAX, RBX,
 * RCX and so on. gRPC's (*Server).handleStream(transport, stream): the server, an interface and the
 * stream. WriteStatus(transport, stream, status) of its transports: RAX, RBX, RCX.
 *
 * A mux finds the pattern in a function whose results are a handler, in RAX and RBX, and the
 * pattern.
 */
static const struct request_function functions[] = {
	{"net/http.serverHandler.ServeHTTP", OLDEST, NEWEST, ENTRY_CALL, REQUEST_IN_RDI, "names"},
	{"golang.org/x/net/http2.(*serverConn).runHandler", OLDEST, NEWEST, ENTRY_CALL,
	 REQUEST_IN_RCX, "names"},
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
			!strcmp(last, ".writeStatus"));
}

const struct request_function *request_function_of(const char *name, int minor)
{
	for (size_t i = 0; may_be_one(name) && i < ARRAY_SIZE(functions); i++)
		if (minor >= functions[i].first && minor <= functions[i].last &&
		    is_named(name, functions[i].name))
			return &functions[i];
	return NULL;
}

/* Whether the program was built with this GOEXPERIMENT: "go1.25.1 X:a,b". */
static bool has_experiment(const struct image *img, const char *name)
{
	const char *at = img->info.experiment ? strstr(img->info.version, "X:") : NULL;
	size_t n = strlen(name);

	for (at = at ? at + 2 : ""; *at && *at != ' '; at += strspn(at, ",")) {
		size_t length = strcspn(at, ", ");

		if (length == n && !strncmp(at, name, n))
			return true;
		at += length;
	}
	return false;
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

static bool has_grpc(const struct image *img)
{
	struct go_func f;

	for (size_t i = 0; i < img->functions.count; i++)
		if (pclntab_function(&img->functions, i, &f) &&
		    strstr(f.name, "google.golang.org/grpc.(*Server)."))
			return true;
	return false;
}

/* What differs by version of grpc-go, and of the compiler of protocol buffers. */
static struct error *must_check grpc_layout(struct target *t, const struct image *img,
					    const struct golayout *lay, struct agent_http *ret)
{
	_cleanup_type_data_ struct type_data types = {0};
	uint64_t status;
	struct error *err;

	if (!has_grpc(img))
		return NULL;
	err = type_data_read(t, img, lay->minor, &types);
	if (err)
		return err;
	find_peer(&types, ret);
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
		.map_kind = MAP_OF_GROUPS,
	};
	if (lay->minor <= 23 || has_experiment(img, "noswissmap"))
		ret->map_kind = MAP_OF_BUCKETS;
	else if (has_experiment(img, "mapsplitgroup"))
		ret->map_kind = MAP_OF_SPLIT_GROUPS;
	return grpc_layout(t, img, lay, ret);
}
