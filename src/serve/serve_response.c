#include "serve/serve_response.h"

#include <stdio.h>
#include <string.h>

#include "serve/serve_route.h"

/* How soon a client may try again what was too much at once. */
#define RETRY_SECONDS "1"

#define NO_FRAMES "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
#define POLICY_NOTHING "default-src 'none'; " NO_FRAMES
/* Pictures of this server, but no script. */
#define POLICY_PAGE "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; " NO_FRAMES
/* One script, which is this server's, and may ask this server. */
#define POLICY_LIVE                                                   \
	"default-src 'none'; script-src 'self'; connect-src 'self'; " \
	"style-src 'unsafe-inline'; " NO_FRAMES
/* The page of a profile has its script in it, and text of the program. In a sandbox it is of no
 * origin: it cannot ask this server for anything. */
#define POLICY_FLAME                                                   \
	"default-src 'none'; script-src 'unsafe-inline'; style-src "   \
	"'unsafe-inline'; img-src data: blob:; sandbox allow-scripts " \
	"allow-downloads; " NO_FRAMES

static const struct {
	const char *media;
	const char *policy;
} types[SERVE_TYPES] = {
	[SERVE_TYPE_TEXT] = {"text/plain; charset=utf-8", POLICY_NOTHING},
	[SERVE_TYPE_BINARY] = {"application/octet-stream", POLICY_NOTHING},
	[SERVE_TYPE_HTML] = {"text/html; charset=utf-8", POLICY_PAGE},
	[SERVE_TYPE_FLAME] = {"text/html; charset=utf-8", POLICY_FLAME},
	[SERVE_TYPE_JSON] = {"application/json", POLICY_NOTHING},
	[SERVE_TYPE_DOT] = {"text/vnd.graphviz; charset=utf-8", POLICY_NOTHING},
	[SERVE_TYPE_METRICS] = {"text/plain; version=0.0.4; charset=utf-8", POLICY_NOTHING},
	[SERVE_TYPE_LIVE] = {"text/html; charset=utf-8", POLICY_LIVE},
	[SERVE_TYPE_PICTURE] = {"image/svg+xml", POLICY_NOTHING},
	[SERVE_TYPE_SCRIPT] = {"text/javascript; charset=utf-8", POLICY_NOTHING},
};

static void add(struct MHD_Response *response, const char *name, const char *value)
{
	/* Without memory the header is missing, and the browser has one defence less: the
	 * connection ends at the next allocation. */
	MHD_add_response_header(response, name, value);
}

static void add_common(struct MHD_Response *response, enum serve_type type)
{
	add(response, "Content-Type", types[type].media);
	add(response, "X-Content-Type-Options", "nosniff");
	add(response, "Content-Security-Policy", types[type].policy);
	add(response, "Cross-Origin-Resource-Policy", "same-origin");
	add(response, "Referrer-Policy", "no-referrer");
	add(response, "X-Frame-Options", "DENY");
	add(response, "Cache-Control", "no-store");
}

enum MHD_Result serve_respond_error(struct MHD_Connection *connection, unsigned int status,
				    const char *text)
{
	struct MHD_Response *response;
	enum MHD_Result done;
	char line[256];

	snprintf(line, sizeof(line), "%s\n", text);
	response = MHD_create_response_from_buffer(strlen(line), line, MHD_RESPMEM_MUST_COPY);
	if (!response)
		return MHD_NO;
	add_common(response, SERVE_TYPE_TEXT);
	add(response, "X-Go-Pprof", "1");
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
		add(response, MHD_HTTP_HEADER_RETRY_AFTER, RETRY_SECONDS);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		add(response, MHD_HTTP_HEADER_ALLOW, "GET");
	if (status == MHD_HTTP_UNAUTHORIZED)
		add(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"gospect\"");
	done = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return done;
}

enum MHD_Result serve_respond_text(struct MHD_Connection *connection, enum serve_type type,
				   const struct strbuf *page)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(page->length, page->data, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result done;

	if (!response || page->failed)
		return MHD_NO;
	add_common(response, type);
	done = MHD_queue_response(connection, MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return done;
}

enum MHD_Result serve_respond_moved(struct MHD_Connection *connection, const char *path)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
	enum MHD_Result done;
	char to[256];

	if (!response)
		return MHD_NO;
	snprintf(to, sizeof(to), "%s/", path);
	add_common(response, SERVE_TYPE_TEXT);
	add(response, MHD_HTTP_HEADER_LOCATION, to);
	done = MHD_queue_response(connection, MHD_HTTP_MOVED_PERMANENTLY, response);
	MHD_destroy_response(response);
	return done;
}

/* What a browser saves it as; of a profile, its name in net/http/pprof. */
static void add_file_name(struct MHD_Response *response, const struct serve_request *r)
{
	bool is_difference =
		r->kind >= SERVE_HEAP && r->kind <= SERVE_GOROUTINELEAK && r->seconds > 0;
	char text[80];

	snprintf(text, sizeof(text), "attachment; filename=\"%s%s\"", serve_kind_name(r->kind),
		 is_difference ? "-delta" : "");
	add(response, "Content-Disposition", text);
}

void serve_response_describe(struct MHD_Response *response, const struct serve_request *request,
			     const struct serve_head *head)
{
	add_common(response, head->type);
	if (head->status != MHD_HTTP_OK)
		add(response, "X-Go-Pprof", "1");
	else if (head->type == SERVE_TYPE_BINARY)
		add_file_name(response, request);
	if (head->status == MHD_HTTP_SERVICE_UNAVAILABLE)
		add(response, MHD_HTTP_HEADER_RETRY_AFTER, RETRY_SECONDS);
	if (*head->remark)
		add(response, "X-Gospect-Remark", head->remark);
}
