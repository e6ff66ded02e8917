#include "memory/heap_profile_off.h"

#include "base/array.h"
#include "image/pclntab.h"

bool heap_profile_is_kept(const struct image *img)
{
	static const char *const askers[] = {"runtime.MemProfile", "runtime.memProfileInternal"};
	struct go_func f;

	for (size_t i = 0; i < ARRAY_SIZE(askers); i++)
		if (pclntab_find_name(&img->functions, askers[i], &f))
			return true;
	return false;
}

struct error *heap_profile_off(const struct image *img)
{
	if (!heap_profile_is_kept(img))
		return error_format(
			ERROR_FAILED,
			"the program keeps no heap profile: nothing in it asks for one, so the Go linker turned it off; import net/http/pprof in it, or have it call pprof.WriteHeapProfile");
	return error_format(
		ERROR_FAILED,
		"the program keeps no heap profile: runtime.MemProfileRate is 0 in it; leave it at its default of 524288");
}
