#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "inject/injection.h"
#include "inject/leftovers.h"
#include "inject/threads.h"

/* One gospect for a process at a time; the kernel lets go of it when we end, however we end. */
static struct error *must_check take_lock(struct injection *in)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	pid_t pid = target_pid(in->t);
	struct stat ns;
	char path[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	if (stat(path, &ns))
		ns.st_ino = 0;
	n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "gospect-trace-%lu-%d-%lu",
		     ns.st_ino, pid, process_start(pid));
	in->lock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (in->lock < 0)
		return error_errno(ERROR_FAILED, errno, "cannot make a socket");
	if (!bind(in->lock, (struct sockaddr *)&name,
		  offsetof(struct sockaddr_un, sun_path) + 1 + n))
		return NULL;
	if (errno == EADDRINUSE)
		return error_format(ERROR_DENIED,
				    "process %d is being traced by another gospect already", pid);
	return error_errno(ERROR_FAILED, errno, "cannot lock process %d for tracing", pid);
}

/* A number of /proc/PID/status; 0 when it is not there. */
static unsigned long status_number(pid_t pid, const char *key)
{
	unsigned long value = 0;
	char path[64], line[256];
	size_t n = strlen(key);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, n) && line[n] == ':')
			value = strtoul(line + n + 1, NULL, 10);
	fclose(f);
	return value;
}

/* Where a filter decides about system calls, ours could get the target killed: only with it
 * suspended, which takes CAP_SYS_ADMIN and no filter of our own (ptrace(2)). */
static struct error *must_check check_seccomp(struct injection *in)
{
	unsigned long capabilities = 0;
	char line[256];
	FILE *f;

	if (!status_number(target_pid(in->t), "Seccomp"))
		return NULL;
	f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %lx", &capabilities) == 1)
			break;
	if (f)
		fclose(f);
	if (!(capabilities >> 21 & 1) || status_number(getpid(), "Seccomp"))
		return error_format(ERROR_DENIED,
				    "process %d has a seccomp filter, which might kill it for the "
				    "system calls that trace has it make; run gospect as root "
				    "outside the container, where the filter can be suspended",
				    target_pid(in->t));
	in->w.suspend_seccomp = true;
	return NULL;
}

static struct error *must_check open_memory(struct injection *in)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", target_pid(in->t));
	in->memory = open(path, O_RDWR | O_CLOEXEC);
	if (in->memory < 0)
		return error_errno(ERROR_DENIED, errno,
				   "cannot write to process %d's memory (run as root, or give "
				   "gospect CAP_SYS_PTRACE)",
				   target_pid(in->t));
	in->w = (struct withdrawal){.t = in->t,
				    .img = in->img,
				    .lay = in->lay,
				    .memory = in->memory,
				    .keep_code_page = true};
	return NULL;
}

/* Another gospect in another network namespace does not see our lock, but leaves its pid. */
static struct error *must_check check_tracer(struct injection *in)
{
	_cleanup_leftovers_ struct leftovers l = {0};
	struct error *err = leftovers_find(in->t, &l);
	pid_t tracer = err ? 0 : leftovers_tracer(&l);

	if (err)
		return err;
	if (tracer && tracer != getpid() && tracer != in->predecessor)
		return error_format(ERROR_DENIED,
				    "process %d is being traced by gospect, process %d, already",
				    target_pid(in->t), tracer);
	return NULL;
}

struct error *injection_enter(struct injection *in)
{
	struct error *err = open_memory(in);

	if (!err)
		err = threads_check_untraced(target_pid(in->t));
	if (!err)
		err = check_tracer(in);
	if (!err)
		err = take_lock(in);
	if (!err)
		err = check_seccomp(in);
	return err;
}
