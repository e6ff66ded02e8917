#include "inject/fault.h"

#ifdef FAULT_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* GOSPECT_FAULT is a name, or a name and how often it may be passed before: "remote-call-done:3".
 */
void fault_point(const char *name)
{
	static int passed;
	const char *wanted = getenv("GOSPECT_FAULT");
	size_t n = strlen(name);

	if (!wanted || strncmp(wanted, name, n) || (wanted[n] && wanted[n] != ':'))
		return;
	if (wanted[n] && passed++ < atoi(wanted + n + 1))
		return;
	kill(getpid(),
	     getenv("GOSPECT_FAULT_SIGNAL") ? atoi(getenv("GOSPECT_FAULT_SIGNAL")) : SIGKILL);
}
#endif
