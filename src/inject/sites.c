#include "inject/sites.h"

#include <string.h>

struct error *sites_read(struct target *t, const struct code_head *head, struct sites *ret)
{
	struct target_range ranges[CODE_MAX_SITES] = {0};
	unsigned int numbers[CODE_MAX_SITES];
	bool ok[CODE_MAX_SITES];
	size_t n = 0;
	struct error *err;

	memset(ret->known, 0, sizeof(ret->known));
	for (unsigned int i = 0; i < head->site_count; i++) {
		const struct code_site *site = &head->sites[i];

		if (!site->address || code_site_bytes(site) > SITE_MAX_BYTES)
			continue;
		numbers[n] = i;
		ranges[n++] =
			(struct target_range){site->address, code_site_bytes(site), ret->bytes[i]};
	}
	err = target_read_each(t, ranges, n, ok);
	for (size_t k = 0; !err && k < n; k++)
		ret->known[numbers[k]] = ok[k];
	return err;
}

bool sites_is_jump(const struct sites *p, const struct code_head *head, unsigned int i)
{
	uint8_t jump[SITE_JUMP_BYTES];

	return p->known[i] && code_jump(&head->sites[i], jump) &&
	       !memcmp(jump, p->bytes[i], sizeof(jump));
}

struct error *sites_check(struct target *t, const struct code_head *head)
{
	struct sites now;
	struct error *err = sites_read(t, head, &now);

	for (unsigned int i = 0; !err && i < head->site_count; i++) {
		const struct code_site *site = &head->sites[i];

		if (site->address &&
		    (!now.known[i] || memcmp(site->bytes, now.bytes[i], code_site_bytes(site))))
			err = error_format(
				ERROR_DENIED,
				"the code of process %d changed while gospect patched it; another "
				"tool is active in it",
				target_pid(t));
	}
	return err;
}
