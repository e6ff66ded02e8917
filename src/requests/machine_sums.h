/* Times added up by stack: of system calls, and of assists of the collector. */
#ifndef REQUESTS_MACHINE_SUMS_H
#define REQUESTS_MACHINE_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"

struct machine_sum {
	uint32_t stack;
	uint64_t count;
	uint64_t ns;
	uint64_t max_ns;
	uint64_t lost; /* system calls during which another thread took the P */
};

struct machine_sums {
	struct machine_sum *items; /* longest first, once they are complete */
	size_t count;
	size_t capacity;
	struct map index; /* stack -> place in items + 1 */
	uint64_t total_ns;
	uint64_t total_count;
};

struct error *machine_sums_add(struct machine_sums *s, uint32_t stack, uint64_t ns,
			       bool lost) must_check;
void machine_sums_complete(struct machine_sums *s);
void machine_sums_release(struct machine_sums *s);

#endif
