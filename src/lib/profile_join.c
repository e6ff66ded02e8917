#include "lib/profile_join.h"

#include <string.h>

#include "lib/profile_handle.h"
#include "profile/concat.h"

static struct error *must_check take_version(struct profile *p, const struct profile *from)
{
	if (p->go_version || !from->go_version)
		return NULL;
	p->go_version = strdup(from->go_version);
	return p->go_version ? NULL : &error_no_memory;
}

struct error *profile_join(struct gospect_profile *p, const struct gospect_profile *from)
{
	struct error *err = NULL;

	if (!p->is_merged || p == from || !from->info.has_functions)
		return error_format(ERROR_USAGE, "only profiles with functions can be joined");
	err = take_version(p->profile, from->profile);
	if (!err)
		err = concat_add(p->profile, p->symbols, from->profile, from->symbols);
	arena_release(&p->given);
	p->samples = NULL;
	profile_describe(p, true);
	return err;
}
