/* Who may ask, and how: the method, the Host, the site of the page that asks, the token and the
 * client's certificate. */
#ifndef SERVE_SERVE_GUARD_H
#define SERVE_SERVE_GUARD_H

#include <microhttpd.h>

#include "serve/serve_front.h"

/* 0: the request may be answered. Otherwise the status of the answer, and its text. */
unsigned int serve_guard(const struct serve_front_options *o, struct MHD_Connection *connection,
			 const char *method, const char *path, const char **ret_text);

#endif
