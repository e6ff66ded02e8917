#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct error error_no_memory = {ERROR_NO_MEMORY, true, "out of memory"};
struct error error_fault = {ERROR_FAULT, true, "cannot read the memory of the target"};
struct error error_stopped = {ERROR_STOPPED, true, "stopped"};

/* Owns the text, which came from malloc(). */
static struct error *error_new(enum error_code code, char *message)
{
	struct error *err = malloc(sizeof(*err));

	if (!err) {
		free(message);
		return &error_no_memory;
	}
	*err = (struct error){code, false, message};
	return err;
}

struct error *error_format(enum error_code code, const char *format, ...)
{
	va_list args;
	char *message;
	int n;

	va_start(args, format);
	n = vasprintf(&message, format, args);
	va_end(args);
	return n < 0 ? &error_no_memory : error_new(code, message);
}

/* regular_file_open() reports a device, a pipe or a socket by this errno. */
static const char *errno_text(int errnum)
{
	return errnum == EMEDIUMTYPE ? "it is a pipe, a socket or a device; choose a regular file"
				     : strerror(errnum);
}

struct error *error_errno(enum error_code code, int errnum, const char *format, ...)
{
	_cleanup_free_ char *what = NULL;
	va_list args;
	char *message;
	int n;

	va_start(args, format);
	n = vasprintf(&what, format, args);
	va_end(args);
	if (n < 0) {
		what = NULL;
		return &error_no_memory;
	}
	if (asprintf(&message, "%s: %s", what, errno_text(errnum)) < 0)
		return &error_no_memory;
	return error_new(code, message);
}

struct error *error_wrap(struct error *err, const char *format, ...)
{
	_cleanup_free_ char *what = NULL;
	enum error_code code;
	va_list args;
	char *message;
	int n;

	if (!err)
		return NULL;
	va_start(args, format);
	n = vasprintf(&what, format, args);
	va_end(args);
	if (n < 0) {
		what = NULL;
		return err;
	}
	if (asprintf(&message, "%s: %s", what, err->message) < 0)
		return err;
	code = err->code;
	error_destroy(err);
	return error_new(code, message);
}

void error_destroy(struct error *err)
{
	if (!err || err->is_static)
		return;
	free((char *)err->message);
	free(err);
}

bool error_dropped(struct error *err)
{
	bool failed = err != NULL;

	error_destroy(err);
	return failed;
}
