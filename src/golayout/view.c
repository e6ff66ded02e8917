#include "golayout/view.h"

#include <stddef.h>

#include "base/array.h"

static const struct {
	const char *type;
	const char *path;
	size_t number; /* where it is in struct golayout_numbers */
} fields[] = {
#define FIELD(name, go_type, go_path) {go_type, go_path, offsetof(struct golayout_numbers, name)},
#define CONSTANT(name, go_name)
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};

/* The end of the last field; a field may be as wide as a word. */
static size_t bytes_of(const char *type, const struct golayout_numbers *n)
{
	size_t size = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int32_t offset;

		memcpy(&offset, (const char *)n + fields[i].number, sizeof(offset));
		if (*fields[i].path && offset != GOLAYOUT_ABSENT && !strcmp(fields[i].type, type) &&
		    offset + sizeof(uint64_t) > size)
			size = offset + sizeof(uint64_t);
	}
	return size;
}

/* A larger count is garbage. Counts up to ALWAYS_FINE cost little and are not checked. */
#define MAX_GOROUTINES (1ull << 25)
#define ALWAYS_FINE (1ull << 18)

struct error *golayout_check_count(const struct golayout *lay, const struct target *t,
				   uint64_t count)
{
	uint64_t memory;

	if (count <= ALWAYS_FINE)
		return NULL;
	memory = count <= MAX_GOROUTINES ? target_memory(t) : 0;
	if (count <= memory / golayout_g_bytes(&lay->n))
		return NULL;
	return error_format(
		ERROR_CORRUPT,
		"the target claims %lu goroutines, more than its memory can hold: its memory is "
		"corrupt",
		count);
}

size_t golayout_g_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.g", n);
}

size_t golayout_m_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.m", n);
}

size_t golayout_sudog_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.sudog", n);
}

size_t golayout_hchan_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.hchan", n);
}

size_t golayout_poll_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.pollDesc", n);
}

size_t golayout_timer_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.timer", n);
}

size_t golayout_span_bytes(const struct golayout_numbers *n)
{
	return bytes_of("runtime.mspan", n);
}
