#include "lib/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "target/access.h"

void findings_add(const struct findings *to, bool good, const char *name, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	struct gospect_finding f = {.is_good = good, .name = name};
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		text = NULL;
	f.text = text ? text : "out of memory";
	to->report(to->arg, &f);
}

void findings_add_verb(const struct findings *to, const char *verb, const char *needs,
		       const struct error *err)
{
	const struct gospect_finding f = {
		.kind = GOSPECT_FINDING_VERB,
		.is_good = !err,
		.name = verb,
		.text = err ? err->message : needs,
	};

	to->report(to->arg, &f);
}

struct error *findings_agent(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	if (!access_in_gvisor())
		return NULL;
	return error_format(ERROR_UNSUPPORTED,
			    "this machine is gVisor's, where gospect cannot stop "
			    "threads; use record or offcpu --sampled");
#else
	return error_format(ERROR_UNSUPPORTED,
			    "trace supports amd64 and arm64 only; use record here");
#endif
}

void findings_add_readers(const struct findings *to, const char *text, const struct error *read)
{
	static const char *const verbs[] = {"ps",    "dump",   "stack", "waits",  "why",
					    "heap",  "memory", "leaks", "record", "top",
					    "watch", "serve",  "push"};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		findings_add_verb(to, verbs[i], text, read);
}
