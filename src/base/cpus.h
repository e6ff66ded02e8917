#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stddef.h>

/* How many processors this machine may have, those that are off too; at least 1. The first call
 * reads files, so it comes before gospect gives up its privilege. */
size_t cpus_configured(void);

#endif
