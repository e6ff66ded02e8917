#include "lib/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "oncpu/bpf.h"
#include "oncpu/perf_events.h"
#include "target/target.h"

/* A forked child has it at the same address. */
static const uint64_t token = 0x7061706572206f6bull;

static struct error *start_child(pid_t *ret)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	if (pid < 0)
		return error_errno(ERROR_FAILED, errno, "cannot start a child process to test it");
	*ret = pid;
	return NULL;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
}

static struct error *on_child(struct error *(*try)(pid_t pid))
{
	pid_t pid = 0;
	struct error *err = start_child(&pid);

	if (err)
		return err;
	err = try(pid);
	end_child(pid);
	return err;
}

static struct error *try_memory(pid_t pid)
{
	_cleanup_target_ struct target *t = NULL;
	uint64_t word = 0;
	struct error *err = target_open_process(pid, &t);

	if (!err)
		err = target_read_u64(t, (uintptr_t)&token, &word);
	if (!err && word != token)
		err = error_format(ERROR_FAILED, "the memory of a child process reads wrong");
	return err;
}

struct error *probe_memory(void)
{
	return on_child(try_memory);
}

static struct error *try_readv(pid_t pid)
{
	uint64_t word = 0;
	struct iovec local = {&word, sizeof(word)}, remote = {(void *)&token, sizeof(token)};

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(word) && word == token)
		return NULL;
	return error_errno(ERROR_DENIED, errno, "process_vm_readv fails on a child process");
}

struct error *probe_process_vm_readv(void)
{
	return on_child(try_readv);
}

static struct error *try_ptrace(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) ||
	    waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_DETACH, pid, NULL, NULL))
		return error_errno(ERROR_DENIED, errno, "ptrace fails on a child process");
	return NULL;
}

struct error *probe_ptrace(void)
{
	return on_child(try_ptrace);
}

static struct error *try_suspend(pid_t pid)
{
	if (!ptrace(PTRACE_SEIZE, pid, NULL, (long)PTRACE_O_SUSPEND_SECCOMP))
		return NULL;
	return error_format(
		ERROR_DENIED,
		"its seccomp filter could kill it for the system calls of the agent; run gospect "
		"as root outside the container, where it can suspend the filter");
}

struct error *probe_suspend_filters(void)
{
	return on_child(try_suspend);
}

static struct error *try_perf(pid_t pid)
{
	_cleanup_perf_events_ struct perf_events *p = NULL;
	const struct perf_options options = {
		.hz = 100,
#ifdef __x86_64__
		.machine = MACHINE_AMD64,
#else
		.machine = MACHINE_ARM64,
#endif
		.stack_size = 1024,
	};

	return perf_events_open(pid, &pid, 1, &options, &p);
}

struct error *probe_perf_events(void)
{
	return on_child(try_perf);
}

/* Loads a program that would read the target's memory. It never runs. */
struct error *probe_bpf(void)
{
	_cleanup_free_ struct bpf_code *c = calloc(1, sizeof(*c));
	_cleanup_close_ int fd = -1;

	if (!c)
		return &error_no_memory;
	bpf_copy(c, 1, 10);
	bpf_add(c, 1, -8);
	bpf_set(c, 2, 8);
	bpf_set(c, 3, 0);
	bpf_call(c, BPF_FUNC_probe_read_user);
	bpf_set(c, 0, 1);
	bpf_exit(c);
	return bpf_program_open(c, BPF_PROG_TYPE_PERF_EVENT, &fd);
}
