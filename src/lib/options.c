#include "lib/options.h"

#include <stdint.h>
#include <string.h>

/* No structure of options is larger, so a larger size is wrong. */
#define MOST_BYTES 4096

struct error *options_take(const void *given, void *ret, size_t size, const char *name)
{
	const uint8_t *bytes = given;
	size_t theirs;

	if (!given)
		return NULL;
	memcpy(&theirs, given, sizeof(theirs));
	if (theirs < sizeof(theirs) || theirs > MOST_BYTES)
		return error_format(ERROR_USAGE,
				    "struct %s has no valid size; set .size = sizeof(struct %s)",
				    name, name);
	for (size_t i = size; i < theirs; i++)
		if (bytes[i])
			return error_format(
				ERROR_USAGE,
				"struct %s has a field that libgospect %s does not support; use a "
				"newer libgospect",
				name, GOSPECT_VERSION);
	memcpy(ret, given, theirs < size ? theirs : size);
	return NULL;
}
