#include "gotrace/grpc_code.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"

static const char *const names[] = {
	"OK",
	"Canceled",
	"Unknown",
	"InvalidArgument",
	"DeadlineExceeded",
	"NotFound",
	"AlreadyExists",
	"PermissionDenied",
	"ResourceExhausted",
	"FailedPrecondition",
	"Aborted",
	"OutOfRange",
	"Unimplemented",
	"Internal",
	"Unavailable",
	"DataLoss",
	"Unauthenticated",
};

void grpc_code_name(uint32_t code, char ret[GRPC_CODE_NAME])
{
	if (code < ARRAY_SIZE(names))
		snprintf(ret, GRPC_CODE_NAME, "%s", names[code]);
	else
		snprintf(ret, GRPC_CODE_NAME, "Code(%u)", code);
}

bool grpc_code_find(const char *name, uint32_t *ret)
{
	char end = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		*ret = i;
		return true;
	}
	return sscanf(name, "Code(%u%c", ret, &end) == 2 && end == ')';
}
