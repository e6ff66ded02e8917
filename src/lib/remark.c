#include "lib/remark.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

void remark(const struct remark *to, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	va_list args;
	int n;

	if (!to->report)
		return;
	va_start(args, format);
	n = vasprintf(&line, format, args);
	va_end(args);
	if (n < 0)
		line = NULL;
	to->report(to->arg, line ? line : "out of memory");
}
