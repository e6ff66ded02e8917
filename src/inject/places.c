#include "inject/places.h"

#include <string.h>

struct error *places_read(struct target *t, const struct code_head *head, struct places *ret)
{
	struct target_range ranges[CODE_MAX_PLACES] = {0};
	unsigned int numbers[CODE_MAX_PLACES];
	bool ok[CODE_MAX_PLACES];
	size_t n = 0;
	struct error *err;

	memset(ret->known, 0, sizeof(ret->known));
	for (unsigned int i = 0; i < head->place_count; i++) {
		const struct code_place *place = &head->places[i];

		if (!place->address || code_place_bytes(place) > PLACE_MAX_BYTES)
			continue;
		numbers[n] = i;
		ranges[n++] = (struct target_range){place->address, code_place_bytes(place),
						    ret->bytes[i]};
	}
	err = target_read_each(t, ranges, n, ok);
	for (size_t k = 0; !err && k < n; k++)
		ret->known[numbers[k]] = ok[k];
	return err;
}

bool places_is_jump(const struct places *p, const struct code_head *head, unsigned int i)
{
	uint8_t jump[PLACE_JUMP_BYTES];

	return p->known[i] && code_jump(&head->places[i], jump) &&
	       !memcmp(jump, p->bytes[i], sizeof(jump));
}

struct error *places_check(struct target *t, const struct code_head *head)
{
	struct places now;
	struct error *err = places_read(t, head, &now);

	for (unsigned int i = 0; !err && i < head->place_count; i++) {
		const struct code_place *place = &head->places[i];

		if (place->address &&
		    (!now.known[i] || memcmp(place->bytes, now.bytes[i], code_place_bytes(place))))
			err = error_format(
				ERROR_DENIED,
				"the code of process %d changed while gospect patched it; another "
				"tool is active in it",
				target_pid(t));
	}
	return err;
}
