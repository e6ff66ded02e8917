#include "base/cpus.h"

#include <unistd.h>

size_t cpus_configured(void)
{
	static size_t count;

	if (!count) {
		long n = sysconf(_SC_NPROCESSORS_CONF);

		count = n > 0 ? n : 1;
	}
	return count;
}
