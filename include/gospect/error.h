/* Errors of libgospect. See gospect.h for the rules. */
#ifndef GOSPECT_ERROR_H
#define GOSPECT_ERROR_H

#include <gospect/api.h>

GOSPECT_BEGIN

/* A program should expect codes that it does not know, and treat them as GOSPECT_ERROR_FAILED. */
enum gospect_error_code {
	GOSPECT_ERROR_FAILED = 0,      /* anything that has no code of its own */
	GOSPECT_ERROR_NO_MEMORY = 1,   /* this process ran out of memory */
	GOSPECT_ERROR_FAULT = 2,       /* memory of the target cannot be read there */
	GOSPECT_ERROR_GONE = 3,        /* the target exited, or became another program by exec */
	GOSPECT_ERROR_DENIED = 4,      /* the kernel denies it; the message names the remedy */
	GOSPECT_ERROR_NOT_GO = 5,      /* the target is not a Go program */
	GOSPECT_ERROR_UNSUPPORTED = 6, /* this Go version, file or machine is not supported */
	GOSPECT_ERROR_CORRUPT = 7,     /* a file, or the target's memory, is invalid */
	GOSPECT_ERROR_CANCELLED = 8,   /* gospect_cancel_request() was called */
	GOSPECT_ERROR_INVALID = 9,     /* an argument or an option is wrong */
};

struct gospect_error;

GOSPECT_API enum gospect_error_code gospect_error_code(const struct gospect_error *err);

/* One line without a final full stop: what was tried, on what, why it failed, and the remedy. It
 * may contain text of the target. Valid until the error is destroyed. */
GOSPECT_API const char *gospect_error_message(const struct gospect_error *err);

/* Takes NULL as well. Any thread may destroy an error. */
GOSPECT_API void gospect_error_destroy(struct gospect_error *err);

GOSPECT_END

#endif
