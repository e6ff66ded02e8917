/*
 * The code of the stubs: one file for each architecture. hooks/stub.c puts it together.
 */
#ifndef HOOKS_STUB_CODE_H
#define HOOKS_STUB_CODE_H

#include "hooks/code_writer.h"
#include "hooks/stub.h"

/* Stubs share code; where its entries are. */
#define STUB_ENTRIES 4

/* The size of the largest stub, aligned; and of the common code, with the excess of larger stubs.
 */
extern const size_t stub_code_bytes, stub_code_common_bytes;

void stub_code_write_common(struct code *c, const struct code_head *head,
			    const struct stub_numbers *numbers, uint64_t ret_entries[STUB_ENTRIES]);
/* For head->sites[hook]. */
void stub_code_write(struct code *c, const struct code_head *head,
		     const struct stub_numbers *numbers, unsigned int hook, enum stub_p kind,
		     const uint64_t entries[STUB_ENTRIES]);

#endif
