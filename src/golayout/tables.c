/* The generated tables, put together; a number that is missing in one does not compile. */
#include "base/array.h"
#include "golayout/golayout.h"

struct table {
	int minor;
	int first_patch; /* up to the next table's */
	struct golayout_numbers n;
};

/* clang-format off */
#define RELEASES(go_minor, first, from, to) {.minor = (go_minor), .first_patch = (first), .n = {
#define NUMBER(name, value) .name = (value),
#define ARM64(name, value)
#define END }},
static const struct table tables[] = {
#include "golayout/releases.def"
};
#undef RELEASES
#undef NUMBER
#undef ARM64
#undef END

/* Only the numbers that arm64 has of its own; the others are 0. */
#define RELEASES(go_minor, first, from, to) {.minor = (go_minor), .first_patch = (first), .n = {
#define NUMBER(name, value)
#define ARM64(name, value) .name = (value),
#define END }},
static const struct table arm64_tables[] = {
#include "golayout/releases.def"
};
#undef RELEASES
#undef NUMBER
#undef ARM64
#undef END

#define RELEASES(go_minor, first, from, to)
#define ARM64(name, value)
#define NUMBER(name, value) +1
#define END
enum { NUMBERS_WRITTEN = 0
#include "golayout/releases.def"
};
#undef RELEASES
#undef NUMBER
#undef ARM64
#undef END

#define RELEASES(go_minor, first, from, to)                                                       \
	_Static_assert((go_minor) >= GOLAYOUT_MIN_MINOR && (go_minor) <= GOLAYOUT_MAX_MINOR, from);
#define NUMBER(name, value) _Static_assert((value) >= 0 || (value) == GOLAYOUT_ABSENT, #name);
#define ARM64(name, value) _Static_assert((value) > 0, #name);
#define END
#include "golayout/releases.def"
#undef RELEASES
#undef NUMBER
#undef ARM64
#undef END
/* clang-format on */

/* None is written twice in a table (-Woverride-init), so none is missing. */
_Static_assert(NUMBERS_WRITTEN ==
		       ARRAY_SIZE(tables) * sizeof(struct golayout_numbers) / sizeof(int32_t),
	       "a generated table lacks a number of fields.def: run tools/gen-layout");

static const struct table *table_of(const struct table *all, size_t count, int minor, int patch)
{
	const struct table *found = NULL;

	for (size_t i = 0; i < count; i++)
		if (all[i].minor == minor && (!found || all[i].first_patch <= patch))
			found = &all[i];
	return found;
}

const struct golayout_numbers *golayout_table(int minor, int patch)
{
	const struct table *found = table_of(tables, ARRAY_SIZE(tables), minor, patch);

	return found ? &found->n : NULL;
}

void golayout_adapt(struct golayout_numbers *n, int minor, int patch, enum machine machine)
{
	const struct table *own =
		machine == MACHINE_ARM64
			? table_of(arm64_tables, ARRAY_SIZE(arm64_tables), minor, patch)
			: NULL;
	const int32_t *from = own ? (const int32_t *)&own->n : NULL;
	int32_t *to = (int32_t *)n;

	for (size_t i = 0; own && i < sizeof(*n) / sizeof(*to); i++)
		if (from[i])
			to[i] = from[i];
}
