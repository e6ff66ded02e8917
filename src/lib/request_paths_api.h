/* The critical paths of a trace's slowest requests, in a profile whose page shows them. */
#ifndef LIB_REQUEST_PATHS_API_H
#define LIB_REQUEST_PATHS_API_H

#include <gospect/recorded.h>

#include "lib/requests_handle.h"
#include "profile/profile.h"

/* Of requests that were read with GOSPECT_REQUESTS_PATHS. */
struct error *request_paths_give(const struct gospect_requests *requests,
				 struct profile *p) must_check;
/* Of the HTTP and gRPC requests of a trace, if it has some. Reads it twice: the first time finds
 * the slowest requests, and the second what goroutines did during these. */
struct error *request_paths_read(const void *bytes, size_t size,
				 const struct gospect_recorded_options *options,
				 struct profile *p) must_check;

#endif
