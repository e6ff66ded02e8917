/*
 * The list of allowed system calls; all others fail with EPERM. Nothing that is allowed makes a
 * file, a process or a connection, names a file to read or write, or affects another process,
 * except:
 * - memory of the target is read by process_vm_readv(2);
 * - signals: 0, those to the command that gospect started, and those to its own process (abort,
 *   Ctrl-Z). A descriptor's owner cannot be set: the kernel sends it signals with gospect's rights;
 * - names of files may be asked about (stat, readlink).
 * clone3(2) has its flags in memory, where no filter sees them: it fails with ENOSYS, and the C
 * library takes clone(2), which may make threads alone.
 */
#include "sandbox/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "base/array.h"

/* With any arguments. */
static const int allowed[] = {
	/* descriptors that it has */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(preadv2),
	SCMP_SYS(pwritev2),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(lseek),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(fstat),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(fallocate),
	SCMP_SYS(getdents64),
	SCMP_SYS(flock),
	SCMP_SYS(fadvise64),
	SCMP_SYS(copy_file_range),
	SCMP_SYS(fstatfs),
	SCMP_SYS(pipe2),
	SCMP_SYS(memfd_create),
	SCMP_SYS(eventfd2),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	/* waiting */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(futex),
	SCMP_SYS(pause),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(sched_yield),
	SCMP_SYS(restart_syscall),
	/* its own memory; executable pages are handled below */
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(mincore),
	SCMP_SYS(msync),
	SCMP_SYS(mlock),
	SCMP_SYS(mlock2),
	SCMP_SYS(munlock),
	SCMP_SYS(membarrier),
	/* its own signals and threads */
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigsuspend),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(rseq),
	SCMP_SYS(gettid),
	SCMP_SYS(arch_prctl),
	/* its own identity */
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(getpgrp),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(uname),
	SCMP_SYS(getcwd),
	SCMP_SYS(getrandom),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(getcpu),
	SCMP_SYS(sysinfo),
	SCMP_SYS(times),
	SCMP_SYS(capget),
	SCMP_SYS(getpriority),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(umask),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	/* names of files */
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
};

/* With this as that argument, by its number. */
static const struct {
	int call;
	unsigned int argument;
	uint64_t value;
} allowed_with[] = {
	/* terminals: their settings, not their input (TIOCSTI) */
	{SCMP_SYS(ioctl), 1, TCGETS},
	{SCMP_SYS(ioctl), 1, TCSETS},
	{SCMP_SYS(ioctl), 1, TCSETSW},
	{SCMP_SYS(ioctl), 1, TCSETSF},
	{SCMP_SYS(ioctl), 1, TCFLSH},
	{SCMP_SYS(ioctl), 1, TCSBRK},
	{SCMP_SYS(ioctl), 1, TIOCGWINSZ},
	{SCMP_SYS(ioctl), 1, TIOCGPGRP},
	{SCMP_SYS(ioctl), 1, FIONREAD},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_ENABLE},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_DISABLE},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_REFRESH},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_RESET},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_PERIOD},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_SET_OUTPUT},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_ID},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_SET_BPF},
	{SCMP_SYS(ioctl), 1, PERF_EVENT_IOC_PAUSE_OUTPUT},
	/* copies of descriptors, and their flags; not their signal owner (F_SETOWN) */
	{SCMP_SYS(fcntl), 1, F_DUPFD},
	{SCMP_SYS(fcntl), 1, F_DUPFD_CLOEXEC},
	{SCMP_SYS(fcntl), 1, F_GETFD},
	{SCMP_SYS(fcntl), 1, F_SETFD},
	{SCMP_SYS(fcntl), 1, F_GETFL},
	{SCMP_SYS(fcntl), 1, F_GET_SEALS},
	{SCMP_SYS(fcntl), 1, F_ADD_SEALS},
	/* maps that it was given; programs are the broker's */
	{SCMP_SYS(bpf), 0, BPF_MAP_LOOKUP_ELEM},
	{SCMP_SYS(bpf), 0, BPF_MAP_UPDATE_ELEM},
	{SCMP_SYS(bpf), 0, BPF_MAP_DELETE_ELEM},
	/* 0 is the calling thread or process */
	{SCMP_SYS(getpgid), 0, 0},
	{SCMP_SYS(prlimit64), 0, 0},
	{SCMP_SYS(sched_setscheduler), 0, 0},
	{SCMP_SYS(kill), 1, 0},
};

static int allow_all(scmp_filter_ctx ctx)
{
	int failed = 0;

	/* Numbers below 0 are calls that this architecture does not have. */
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		if (allowed[i] >= 0)
			failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(allowed_with); i++)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed_with[i].call, 1,
					   SCMP_CMP(allowed_with[i].argument, SCMP_CMP_EQ,
						    allowed_with[i].value));
	return failed;
}

static int allow_some(scmp_filter_ctx ctx, pid_t pid, pid_t child)
{
	const uint64_t thread = CLONE_THREAD | CLONE_VM | CLONE_FILES | CLONE_SIGHAND;
	int failed = 0;

	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				   SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				   SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 2,
				   SCMP_A1(SCMP_CMP_EQ, F_SETFL),
				   SCMP_A2(SCMP_CMP_MASKED_EQ, O_ASYNC, 0));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 2,
				   SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS), SCMP_A1(SCMP_CMP_EQ, 0));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, thread, thread));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				   SCMP_A0(SCMP_CMP_EQ, getpid()));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 1,
				   SCMP_A0(SCMP_CMP_EQ, getpid()));
	/* ncurses stops us so when the user presses Ctrl-Z */
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
				   SCMP_A0(SCMP_CMP_EQ, getpid()));
	if (child)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
					   SCMP_A0(SCMP_CMP_EQ, child));
	if (pid)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(process_vm_readv), 1,
					   SCMP_A0(SCMP_CMP_EQ, pid));
	return failed;
}

/* To other machines, and to read what resolving a name and checking a certificate take. */
static int allow_network(scmp_filter_ctx ctx)
{
	static const int calls[] = {
		SCMP_SYS(connect),     SCMP_SYS(bind),       SCMP_SYS(getsockname),
		SCMP_SYS(getpeername), SCMP_SYS(setsockopt), SCMP_SYS(getsockopt),
		SCMP_SYS(shutdown),    SCMP_SYS(sendmmsg),   SCMP_SYS(recvmmsg),
		SCMP_SYS(socketpair),
	};
	static const int families[] = {AF_INET, AF_INET6, AF_NETLINK};
	const uint64_t writes = O_ACCMODE | O_CREAT | O_TRUNC;
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					   SCMP_A0(SCMP_CMP_EQ, families[i]));
	failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
				   SCMP_A2(SCMP_CMP_MASKED_EQ, writes, O_RDONLY));
	if (SCMP_SYS(open) >= 0)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
					   SCMP_A1(SCMP_CMP_MASKED_EQ, writes, O_RDONLY));
	return failed | seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
					 SCMP_A1(SCMP_CMP_EQ, FIONBIO));
}

/* What a server does with the sockets that it has. */
static int allow_clients(scmp_filter_ctx ctx)
{
	static const int calls[] = {
		SCMP_SYS(accept4),     SCMP_SYS(accept),     SCMP_SYS(shutdown),
		SCMP_SYS(setsockopt),  SCMP_SYS(getsockopt), SCMP_SYS(getsockname),
		SCMP_SYS(getpeername),
	};
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		failed |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
	return failed;
}

/* `more` allows further calls; NULL: none. */
static struct error *must_check install(pid_t pid, pid_t child, int (*more)(scmp_filter_ctx ctx))
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int failed;

	if (!ctx)
		return &error_no_memory;
	failed = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 1);
	failed |= seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	/* No code but ours runs here, so nothing has to be kept from speculating. */
	failed |= seccomp_attr_set(ctx, SCMP_FLTATR_CTL_SSB, 1);
	failed |= seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	failed |= allow_all(ctx);
	failed |= allow_some(ctx, pid, child);
	if (more)
		failed |= more(ctx);
	if (!failed)
		failed = seccomp_load(ctx);
	seccomp_release(ctx);
	return failed ? error_errno(ERROR_UNSUPPORTED, -failed, "cannot install a seccomp filter")
		      : NULL;
}

struct error *filter_install(pid_t pid, pid_t child)
{
	return install(pid, child, NULL);
}

struct error *filter_install_network(void)
{
	return install(0, 0, allow_network);
}

struct error *filter_install_server(void)
{
	return install(0, 0, allow_clients);
}
