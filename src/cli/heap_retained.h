/* gospect heap --retained. */
#ifndef CLI_HEAP_RETAINED_H
#define CLI_HEAP_RETAINED_H

#include "cli/common_options.h"
#include "cli/exact_options.h"

/* `rows` of each table of text; 0: all. *ret as for look_once(). */
struct error *heap_retained(struct common_options *request, const struct exact_options *exact,
			    uint32_t rows, int *ret) must_check;

#endif
