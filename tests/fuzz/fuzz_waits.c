/* Recorded core files of real programs (recorded_core.h), through all steps of `waits`: the
 * objects that goroutines wait for, their names and holders, and deadlocks. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "recorded_core.h"
#include "waits/wait_graph.h"

#define MAX_READS 400000

static bool find(struct target *t, const struct image *img, const struct golayout *lay)
{
	const struct wait_graph_options options = {.system = true};
	_cleanup_wait_graph_ struct wait_graph *w = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f;

	if (error_dropped(wait_graph_take(t, img, lay, &options, &w)))
		return false;
	f = open_memstream(&text, &size);
	fuzz_require(f);
	wait_graph_write_text(w, f);
	wait_graph_write_json(w, f);
	wait_graph_write_dot(w, f);
	fclose(f);
	return w->count > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	recorded_core_take(data, size, find, MAX_READS);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	recorded_core_seeds(emit, arg);
}
