#include "base/cpus.h"

#include <stdatomic.h>
#include <unistd.h>

size_t cpus_configured(void)
{
	static _Atomic size_t count;

	if (!count) {
		long n = sysconf(_SC_NPROCESSORS_CONF);

		count = n > 0 ? n : 1;
	}
	return count;
}
