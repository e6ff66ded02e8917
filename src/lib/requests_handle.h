/* The definition of struct gospect_requests, for the files of the library that hand it out. */
#ifndef LIB_REQUESTS_HANDLE_H
#define LIB_REQUESTS_HANDLE_H

#include <gospect/requests.h>
#include <regex.h>

#include "requests/critical_path.h"
#include "requests/inferred_spans.h"

struct gospect_requests {
	struct requests inner;
	struct inferred_spans inferred; /* where no label is given */
	struct span_tables tables;
	struct history history; /* for critical paths */
	bool has_paths;
	regex_t root;
	bool has_root;
	regex_t part;
	bool has_part;
	regex_t client;
	bool has_client;
	bool has_allocations;
	struct allocation_sum allocated; /* in the whole trace */
	uint64_t alloc_rate;             /* of the last sample; 0: there was none */
	uint64_t duration_ns;            /* of the trace */
};

#endif
