/*
 * Ends the program where GOSPECT_FAULT says: the name of a place in inject/, or a name and how
 * often it may be passed before that, "jump-written:3". With GOSPECT_FAULT_VICTIM it is that
 * process that is killed, and this one goes on. GOSPECT_FAULT_SIGNAL is sent instead of SIGKILL,
 * once. With GOSPECT_FAULT=list each place says its name.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/fault.h"

void fault_reached(const char *name)
{
	static int passed;
	static bool sent;
	const char *wanted = getenv("GOSPECT_FAULT"), *victim = getenv("GOSPECT_FAULT_VICTIM");
	const char *number = getenv("GOSPECT_FAULT_SIGNAL");
	size_t n = strlen(name);

	if (wanted && !strcmp(wanted, "list"))
		fprintf(stderr, "fault-point %s\n", name);
	if (!wanted || strncmp(wanted, name, n) || (wanted[n] && wanted[n] != ':'))
		return;
	if ((wanted[n] && passed++ < atoi(wanted + n + 1)) || (sent && number))
		return;
	sent = true;
	kill(victim ? atoi(victim) : getpid(), number ? atoi(number) : SIGKILL);
	usleep(20000); /* until the kernel has taken the victim apart, or has stopped us */
}
