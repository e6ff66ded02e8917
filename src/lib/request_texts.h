/* What is known of a request (requests/spans.h: struct span_facts), taken apart. */
#ifndef LIB_REQUEST_TEXTS_H
#define LIB_REQUEST_TEXTS_H

#include <gospect/requests.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "requests/requests.h"

/* False: no memory. */
bool request_texts_give(const struct span_tables *tables, const struct traced_request *from,
			struct arena *arena, struct gospect_request *ret);

/* The route, else the path, else "". Adds it to `ret`. */
void request_texts_route(const struct span_tables *tables, const struct traced_request *from,
			 bool or_path, struct strbuf *ret);

#endif
