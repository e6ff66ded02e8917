/* Memory that another program reads: a debugger lends its target. gospect does not treat it as a
 * live process, so nothing asks /proc or the kernel about it. */
#ifndef TARGET_LENT_H
#define TARGET_LENT_H

#include "target/target.h"

struct target_loan {
	int (*read)(void *arg, uint64_t address, void *buffer, size_t size); /* 0: all was read */
	void *arg;
	const char *exe; /* copied */
	uint64_t entry;
};

struct error *target_open_lent(const struct target_loan *loan, struct target **ret) must_check;
/* Adds a mapping to such a target; copied. `path` may be NULL. By address. */
struct error *target_lent_map(struct target *t, const struct target_map *map) must_check;

#endif
