/*
 * Ends the program where GOSPECT_FAULT says: the name of a place in inject/, or a name and how
 * often it may be passed before that, "jump-written:3". With GOSPECT_FAULT_VICTIM it is that
 * process that is killed, and this one goes on. GOSPECT_FAULT_SIGNAL is sent instead of SIGKILL,
 * once; with GOSPECT_FAULT_UNGUARDED its guardian is killed before it. With GOSPECT_FAULT=list each
 * place says its name, and at the place that GOSPECT_FAULT_UNGUARDED names the guardian is killed.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inject/fault.h"
#include "inject/guardian_line.h"
#include "inject/threads.h"
#include "target/proc_status.h"

static pid_t first;

/* The guardian is a copy of us, and is left alone. */
__attribute__((constructor)) static void remember_first(void)
{
	first = getpid();
}

/* This process, or its surgeon, where that has a process of its own. */
static bool may_be_killed(void)
{
	char name[16] = "";

	if (getpid() == first)
		return true;
	prctl(PR_GET_NAME, name);
	return getppid() == first && !strcmp(name, "gospect-surgeon");
}

/* That of its threads which gospect holds, if there is one. */
static void send_to(pid_t pid, int signal)
{
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	pid_t held = pid, id;

	while (folder && (id = task_folder_next(folder)))
		if (thread_state(pid, id) == 't')
			held = id;
	tgkill(pid, held, signal);
}

/* Returns when it has ended. */
static void kill_guardian(void)
{
	siginfo_t info;

	if (guardian_pid() && !kill(guardian_pid(), SIGKILL))
		waitid(P_PID, guardian_pid(), &info, WEXITED | WNOWAIT);
}

void fault_reached(const char *name)
{
	static int passed;
	static bool sent;
	const char *wanted = getenv("GOSPECT_FAULT"), *victim = getenv("GOSPECT_FAULT_VICTIM");
	const char *number = getenv("GOSPECT_FAULT_SIGNAL");
	const char *unguarded = getenv("GOSPECT_FAULT_UNGUARDED");
	size_t n = strlen(name);

	if (!may_be_killed())
		return;
	if (wanted && !strcmp(wanted, "list"))
		fprintf(stderr, "fault-point %s\n", name);
	if (wanted && !strcmp(wanted, "list") && unguarded && !strcmp(unguarded, name))
		kill_guardian();
	if (!wanted || strncmp(wanted, name, n) || (wanted[n] && wanted[n] != ':'))
		return;
	if ((wanted[n] && passed++ < atoi(wanted + n + 1)) || (sent && number))
		return;
	sent = true;
	if (unguarded)
		kill_guardian();
	if (victim)
		send_to(atoi(victim), number ? atoi(number) : SIGKILL);
	else
		kill(getpid(), number ? atoi(number) : SIGKILL);
	usleep(20000); /* until the kernel has taken the victim apart, or has stopped us */
}
