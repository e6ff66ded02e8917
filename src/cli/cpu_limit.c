#include "cli/cpu_limit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/cli.h"

/* A busy or slow machine takes a second for 10 MB of a trace, and less than a minute for the DWARF
 * of the largest program that the file may name. */
#define LEAST_SECONDS 300
#define BYTES_PER_SECOND (1u << 20)

static char text[256];

/* Does not return to the interrupted code, which may never end. */
static void on_limit(int number)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(EXIT_FAILED);
	_exit(EXIT_FAILED);
}

/* The kernel changes the limit when it is reached. */
static void prepare_text(uint64_t seconds)
{
	_cleanup_error_ struct error *err = NULL;
	struct rlimit now;

	if (!getrlimit(RLIMIT_CPU, &now) && now.rlim_cur < seconds)
		seconds = now.rlim_cur;
	err = error_format(
		ERROR_CORRUPT,
		"reading the file takes more than %lu s of CPU time: the file is corrupt, "
		"or the limit is too low (ulimit -t)",
		seconds);
	snprintf(text, sizeof(text), "gospect: %s\n", err->message);
}

uint64_t cpu_limit(const char *const *files)
{
	struct sigaction action = {.sa_handler = on_limit};
	uint64_t bytes = 0, seconds;
	struct stat st;

	for (; *files; files++)
		if (!stat(*files, &st) && S_ISREG(st.st_mode))
			bytes += st.st_size;
	seconds = LEAST_SECONDS + bytes / BYTES_PER_SECOND;
	prepare_text(seconds);
	sigfillset(&action.sa_mask);
	sigaction(SIGXCPU, &action, NULL);
	return seconds;
}
