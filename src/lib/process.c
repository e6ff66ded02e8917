#include "lib/cancel.h"

#include <stdlib.h>

#include "base/mapped_file.h"
#include "base/permit.h"

_Static_assert((int)GOSPECT_PERMIT_LIMITS == (int)PERMIT_LIMITS &&
		       (int)GOSPECT_PERMIT_PRIORITY == (int)PERMIT_PRIORITY &&
		       (int)GOSPECT_PERMIT_MAPPING == (int)PERMIT_MAPPING,
	       "one is handed on as the other");

const char *gospect_version(void)
{
	return GOSPECT_VERSION;
}

void gospect_process_permit(uint32_t permits)
{
	permit_only(permits);
}

int gospect_sigbus(const void *address)
{
	return mapped_file_mend(address);
}

struct gospect_cancel *gospect_cancel_create(void)
{
	return calloc(1, sizeof(struct gospect_cancel));
}

void gospect_cancel_destroy(struct gospect_cancel *cancel)
{
	free(cancel);
}

void gospect_cancel_request(struct gospect_cancel *cancel)
{
	atomic_store(&cancel->requested, 1);
}

int gospect_cancel_is_requested(const struct gospect_cancel *cancel)
{
	return atomic_load(&cancel->requested);
}

void gospect_cancel_reset(struct gospect_cancel *cancel)
{
	atomic_store(&cancel->requested, 0);
}

const atomic_int *cancel_flag(const struct gospect_cancel *cancel)
{
	static const atomic_int never;

	return cancel ? &cancel->requested : &never;
}
