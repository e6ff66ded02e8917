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
#define END }},
static const struct table tables[] = {
#include "golayout/releases.def"
};
#undef RELEASES
#undef NUMBER
#undef END

#define RELEASES(go_minor, first, from, to)
#define NUMBER(name, value) +1
#define END
enum { NUMBERS_WRITTEN = 0
#include "golayout/releases.def"
};
#undef RELEASES
#undef NUMBER
#undef END

#define RELEASES(go_minor, first, from, to)                                                       \
	_Static_assert((go_minor) >= GOLAYOUT_MIN_MINOR && (go_minor) <= GOLAYOUT_MAX_MINOR, from);
#define NUMBER(name, value) _Static_assert((value) >= 0 || (value) == GOLAYOUT_ABSENT, #name);
#define END
#include "golayout/releases.def"
#undef RELEASES
#undef NUMBER
#undef END
/* clang-format on */

/* None is written twice in a table (-Woverride-init), so none is missing. */
_Static_assert(NUMBERS_WRITTEN ==
		       ARRAY_SIZE(tables) * sizeof(struct golayout_numbers) / sizeof(int32_t),
	       "a generated table lacks a number of fields.def: run tools/gen-layout");

const struct golayout_numbers *golayout_table(int minor, int patch)
{
	const struct golayout_numbers *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (tables[i].minor == minor && (!found || tables[i].first_patch <= patch))
			found = &tables[i].n;
	return found;
}
