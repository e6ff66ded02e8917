/*
 * Ends the program where GOSPECT_FAULT says: the name of a place in inject/, or a name and how
 * often it may be passed before that, "jump-written:3". By the signal GOSPECT_FAULT_SIGNAL, which
 * is SIGKILL unless it is given. With GOSPECT_FAULT=list each place says its name.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/fault.h"

void fault_reached(const char *name)
{
	static int passed;
	const char *wanted = getenv("GOSPECT_FAULT"), *signal = getenv("GOSPECT_FAULT_SIGNAL");
	size_t n = strlen(name);

	if (wanted && !strcmp(wanted, "list"))
		fprintf(stderr, "fault-point %s\n", name);
	if (!wanted || strncmp(wanted, name, n) || (wanted[n] && wanted[n] != ':'))
		return;
	if (wanted[n] && passed++ < atoi(wanted + n + 1))
		return;
	kill(getpid(), signal ? atoi(signal) : SIGKILL);
}
