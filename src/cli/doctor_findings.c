/* The lines that doctor prints. */
#include <stdarg.h>
#include <stdio.h>

#include "base/printable.h"
#include "cli/doctor.h"

void doctor_find(bool ok, const char *name, const char *format, ...)
{
	va_list args;

	printf("%-3s %-20s ", ok ? "ok" : "no", name);
	va_start(args, format);
	printable_vline(stdout, format, args);
	va_end(args);
}

void doctor_find_verb(struct doctor *d, const char *verb, const char *needs,
		      const struct error *err)
{
	doctor_find(!err, verb, "%s", err ? err->message : needs);
	d->verb_fails |= err != NULL;
}

void doctor_head(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	puts(":");
}
