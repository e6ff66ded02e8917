#include "perfdata/remarks.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

struct error *perfdata_remark(struct perfdata_remarks *r, const char *format, ...)
{
	char *line;
	va_list args;
	int n;

	if (!array_reserve(&r->lines, &r->capacity, r->count + 1))
		return &error_no_memory;
	va_start(args, format);
	n = vasprintf(&line, format, args);
	va_end(args);
	if (n < 0)
		return &error_no_memory;
	r->lines[r->count++] = line;
	return NULL;
}

void perfdata_remarks_release(struct perfdata_remarks *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->lines[i]);
	free(r->lines);
	*r = (struct perfdata_remarks){0};
}
