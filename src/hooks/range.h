/* Where a function of the target is. Source: its pclntab. */
#ifndef HOOKS_RANGE_H
#define HOOKS_RANGE_H

#include "agent/abi.h"
#include "image/pclntab.h"

/* Its size is 0 when the function does not exist. */
static inline struct agent_range range_of(const struct pclntab *functions, const char *name)
{
	struct go_func f;

	if (!pclntab_find_name(functions, name, &f))
		return (struct agent_range){0};
	return (struct agent_range){f.entry, f.end - f.entry};
}

#endif
