/* The critical paths of a trace's slowest requests, in a profile whose page shows them. */
#ifndef LIB_REQUEST_PATHS_API_H
#define LIB_REQUEST_PATHS_API_H

#include "lib/requests_handle.h"
#include "profile/profile.h"

/* Of requests that were read with GOSPECT_REQUESTS_PATHS. */
struct error *request_paths_give(const struct gospect_requests *requests,
				 struct profile *p) must_check;
/* The same, of what goroutines did then. */
struct error *request_paths_of(const struct gospect_requests *requests,
			       const struct history *history, struct profile *p) must_check;

#endif
