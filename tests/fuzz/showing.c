#include "showing.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "dump/dump.h"
#include "fuzz.h"

static void write_all(const struct dump *dump)
{
	struct error *(*const writers[])(const struct dump *, bool, FILE *) = {dump_write_text,
									       dump_write_groups,
									       dump_write_json};

	for (size_t i = 0; i < ARRAY_SIZE(writers); i++) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		FILE *f = open_memstream(&text, &size);

		fuzz_require(f);
		error_destroy(writers[i](dump, i & 1, f));
		fclose(f);
	}
}

size_t show(struct target *t, const struct image *img, const struct golayout *lay)
{
	_cleanup_dump_ struct dump *dump = NULL;
	/* The verb's is 64 times as much, which would only take longer. */
	struct dump_options options = {.stack_limit = 1u << 20, .system = true, .values = true};
	size_t count;

	if (error_dropped(dump_collect(t, img, lay, &options, &dump)))
		return 0;
	count = dump->count;
	write_all(dump);
	return count;
}
