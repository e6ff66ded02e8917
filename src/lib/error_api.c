#include "lib/error_api.h"

_Static_assert((int)GOSPECT_ERROR_FAILED == (int)ERROR_FAILED &&
		       (int)GOSPECT_ERROR_NO_MEMORY == (int)ERROR_NO_MEMORY &&
		       (int)GOSPECT_ERROR_FAULT == (int)ERROR_FAULT &&
		       (int)GOSPECT_ERROR_GONE == (int)ERROR_GONE &&
		       (int)GOSPECT_ERROR_DENIED == (int)ERROR_DENIED &&
		       (int)GOSPECT_ERROR_NOT_GO == (int)ERROR_NOT_GO &&
		       (int)GOSPECT_ERROR_UNSUPPORTED == (int)ERROR_UNSUPPORTED &&
		       (int)GOSPECT_ERROR_CORRUPT == (int)ERROR_CORRUPT &&
		       (int)GOSPECT_ERROR_CANCELLED == (int)ERROR_STOPPED &&
		       (int)GOSPECT_ERROR_INVALID == (int)ERROR_USAGE,
	       "one is handed on as the other");

enum gospect_error_code gospect_error_code(const struct gospect_error *err)
{
	return (enum gospect_error_code)((const struct error *)err)->code;
}

const char *gospect_error_message(const struct gospect_error *err)
{
	return ((const struct error *)err)->message;
}

void gospect_error_destroy(struct gospect_error *err)
{
	error_destroy((struct error *)err);
}
