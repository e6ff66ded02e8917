/* Memory that another program reads: for example a debugger. gospect does not treat it as a
 * live process, so nothing asks /proc or the kernel about it. */
#ifndef TARGET_CALLBACK_MEMORY_H
#define TARGET_CALLBACK_MEMORY_H

#include "target/target.h"

struct target_callbacks {
	int (*read)(void *arg, uint64_t address, void *buffer, size_t size); /* 0: all was read */
	void *arg;
	const char *exe; /* copied */
	uint64_t entry;
};

struct error *target_open_callback(const struct target_callbacks *callbacks,
				   struct target **ret) must_check;
/* Adds a mapping to such a target; copied. `path` may be NULL. By address. */
struct error *target_callback_map(struct target *t, const struct target_map *map) must_check;

#endif
