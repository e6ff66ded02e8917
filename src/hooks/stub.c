#include "hooks/stub.h"

#include <stddef.h>
#include <string.h>

#include "hooks/stub_code.h"

/* Of a stub, and so of its first instruction. */
#define ALIGNMENT 16

bool stubs_write(struct code_head *head, const struct stub_numbers *n, const enum stub_p *kinds,
		 uint8_t *pages)
{
	struct code c = {pages, head->code, head->stub_bytes, code_head_bytes(head), false};
	uint64_t entries[STUB_ENTRIES];

	if (c.at > c.size)
		return false;
	stub_code_write_common(&c, head, n, entries);
	for (unsigned int i = 0; i < head->site_count && !c.failed; i++) {
		enum stub_p kind = i < HOOKS ? kinds[i] : STUB_P_OF_THREAD;

		if (!head->sites[i].address)
			continue;
		code_align(&c, ALIGNMENT);
		head->sites[i].stub = code_here(&c);
		head->sites[i].jump = head->sites[i].jump ?: head->sites[i].stub;
		stub_code_write(&c, head, n, i, kind, entries);
	}
	memcpy(pages, head, code_head_bytes(head));
	return !c.failed;
}

size_t stubs_size(size_t sites)
{
	size_t bytes = offsetof(struct code_head, sites) + stub_code_common_bytes +
		       sites * (sizeof(struct code_site) + stub_code_bytes);

	return (bytes + CODE_PAGE_BYTES - 1) & ~(CODE_PAGE_BYTES - 1ul);
}
