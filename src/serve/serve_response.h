/* Answers as HTTP has them: their headers, and texts of the server's own. */
#ifndef SERVE_SERVE_RESPONSE_H
#define SERVE_SERVE_RESPONSE_H

#include <microhttpd.h>

#include "base/strbuf.h"
#include "serve/serve_request.h"

/* An error as net/http/pprof sends it: one line of text. */
enum MHD_Result serve_respond_error(struct MHD_Connection *connection, unsigned int status,
				    const char *text);
/* A text of the front's own. */
enum MHD_Result serve_respond_text(struct MHD_Connection *connection, enum serve_type type,
				   const struct strbuf *page);
/* To the same path with a slash behind it. */
enum MHD_Result serve_respond_moved(struct MHD_Connection *connection, const char *path);
/* Adds the headers of a worker's answer. */
void serve_response_describe(struct MHD_Response *response, const struct serve_request *request,
			     const struct serve_head *head);

#endif
