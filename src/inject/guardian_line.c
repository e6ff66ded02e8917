#include "inject/guardian_line.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	pid_t pid;
	int channel;
} line = {0, -1};

void guardian_line_open(pid_t pid, int channel)
{
	line.pid = pid;
	line.channel = channel;
}

void guardian_dismiss(void)
{
	char what = GUARDIAN_DISMISSED;
	pid_t pid = line.pid;

	if (!pid)
		return;
	(void)!send(line.channel, &what, 1, MSG_NOSIGNAL);
	guardian_take_over();
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

pid_t guardian_take_over(void)
{
	pid_t pid = line.pid;

	if (line.channel >= 0)
		close(line.channel);
	line.pid = 0;
	line.channel = -1;
	return pid;
}

pid_t guardian_pid(void)
{
	return line.pid;
}

void guardian_note_holding(bool holding)
{
	char what = holding ? GUARDIAN_HOLDS : GUARDIAN_LET_GO;

	/* If the guardian has no room, or is gone, gospect does not wait. */
	if (line.channel >= 0)
		(void)!send(line.channel, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
