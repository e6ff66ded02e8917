#include "profile/read_any.h"

#include "profile/rebuild.h"

struct error *profile_read_any(const void *bytes, size_t size, const atomic_int *cancel,
			       struct profile_file *ret)
{
	if (page_is(bytes, size))
		return page_read(bytes, size, cancel, ret);
	if (json_is(bytes, size))
		return json_read(bytes, size, cancel, ret);
	if (folded_is(bytes, size))
		return folded_read(bytes, size, cancel, ret);
	return profile_read(bytes, size, cancel, ret);
}
