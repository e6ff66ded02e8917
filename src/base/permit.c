#include "base/permit.h"

#include <stdatomic.h>

static _Atomic uint32_t current;

void permit_only(uint32_t permits)
{
	current = permits;
}

bool permitted(enum permit what)
{
	return current & what;
}
