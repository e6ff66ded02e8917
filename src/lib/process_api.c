#include "lib/cancel_api.h"

#include <sys/mman.h>

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
	return mapped_file_repair(address);
}

struct gospect_cancel *gospect_cancel_create(void)
{
	/* A surgeon's process reads the flag, too. */
	void *memory = mmap(NULL, sizeof(struct gospect_cancel), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void gospect_cancel_destroy(struct gospect_cancel *cancel)
{
	if (cancel)
		munmap(cancel, sizeof(*cancel));
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
