/* Which request a URL is. Knows neither files nor processes: whatever is not in its table is not
 * found. */
#ifndef SERVE_SERVE_ROUTE_H
#define SERVE_SERVE_ROUTE_H

#include "serve/serve_request.h"

/* The parameters of a URL that mean something; NULL: not given. */
struct serve_query {
	const char *seconds;
	const char *debug;
	const char *format;
	const char *from, *to; /* of a part of the last hour */
};

enum serve_routed {
	SERVE_FOUND,
	SERVE_NOT_FOUND,
	SERVE_MOVED, /* the path lacks the slash at its end */
	SERVE_WRONG, /* a parameter is wrong: *ret_wrong says which */
};

/*
 * `path` is decoded, and begins with a slash. `only` is the one process that paths without a number
 * mean; 0: several. *ret has no addresses.
 */
enum serve_routed serve_route(const char *path, const struct serve_query *query, int32_t only,
			      struct serve_request *ret, const char **ret_wrong);

/* The name of a profile, as in its path: "heap"; of a kind of process. */
const char *serve_kind_name(uint32_t kind);

/* The addresses of a query or body of /symbol: "0x4a1+0x4b2"; those that are 0 or wrong are left
 * out. Returns how many. */
size_t serve_addresses(const char *text, uint64_t *ret, size_t most);

#endif
