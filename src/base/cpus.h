#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stddef.h>

/* How many CPUs this machine may have, including those that are off; at least 1. The first call
 * reads files, so call it before gospect gives up its privilege. */
size_t cpus_configured(void);

#endif
