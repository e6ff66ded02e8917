/* The snapshot that a handle reads, for the code that closes the handle. */
#ifndef LIB_MEMORY_SNAPSHOT_API_H
#define LIB_MEMORY_SNAPSHOT_API_H

#include "lib/target_handle.h"

/* Does nothing without one. */
void memory_snapshot_drop(struct gospect_target *t);

#endif
