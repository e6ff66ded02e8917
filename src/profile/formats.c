/* Finds a format by its name. */
#include <string.h>

#include "base/array.h"
#include "profile/profile.h"

static const struct profile_format *const formats[] = {
	&profile_format_pprof,      &profile_format_folded,  &profile_format_folded_state,
	&profile_format_speedscope, &profile_format_firefox, &profile_format_html,
};

const struct profile_format *profile_format_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}
