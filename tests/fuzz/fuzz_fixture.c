/* Recorded core files of real programs (recorded_core.h), through a whole `dump`. */
#include "recorded_core.h"
#include "showing.h"

#define MAX_READS 400000

static bool dump(struct target *t, const struct image *img, const struct golayout *lay)
{
	return show(t, img, lay) > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	recorded_core_take(data, size, dump, MAX_READS);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	recorded_core_seeds(emit, arg);
}
