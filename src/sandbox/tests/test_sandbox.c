/* The rights of a process before and after it drops privilege; each case in a child. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/outfile.h"
#include "base/test_folder.h"
#include "sandbox/sandbox.h"

static pid_t parent;

/* Runs `act` in a child that was confined with `options`; its result is the exit status. */
static int confined(const struct sandbox_options *options, int (*act)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (error_dropped(sandbox_enter(options)))
			_exit(100);
		status = act();
		sandbox_leave();
		if (status)
			fprintf(stderr, "line %d\n", status);
		_exit(status != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define EXPECT(condition)                \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)

/* The kernel sends a descriptor's owner its signal with the rights of the process that set the
 * owner. */
static int forbidden_to_descriptors(void)
{
	struct f_owner_ex owner = {F_OWNER_PID, parent};
	pid_t pid = parent;
	int on = 1, ends[2];

	EXPECT(!pipe2(ends, O_CLOEXEC));
	EXPECT(fcntl(ends[0], F_SETOWN, parent) < 0 && errno == EPERM);
	EXPECT(fcntl(ends[0], F_SETOWN_EX, &owner) < 0 && errno == EPERM);
	EXPECT(fcntl(ends[0], F_SETSIG, SIGKILL) < 0 && errno == EPERM);
	EXPECT(fcntl(ends[0], F_SETFL, O_ASYNC) < 0 && errno == EPERM);
	EXPECT(fcntl(ends[0], F_SETFL, O_NONBLOCK | O_ASYNC) < 0 && errno == EPERM);
	EXPECT(fcntl(ends[0], F_NOTIFY, DN_MODIFY) < 0 && errno == EPERM);
	EXPECT(fcntl(ends[0], F_SETLEASE, F_RDLCK) < 0 && errno == EPERM);
	EXPECT(ioctl(ends[0], FIOSETOWN, &pid) < 0 && errno == EPERM);
	EXPECT(ioctl(ends[0], FIOASYNC, &on) < 0 && errno == EPERM);
	return 0;
}

/* They include other processes. */
static int forbidden_to_priorities(void)
{
	const struct sched_param param = {0};

	EXPECT(setpriority(PRIO_USER, 0, 1) < 0 && errno == EPERM);
	EXPECT(setpriority(PRIO_PGRP, 0, 1) < 0 && errno == EPERM);
	EXPECT(setpriority(PRIO_PROCESS, parent, 1) < 0 && errno == EPERM);
	EXPECT(sched_setscheduler(parent, SCHED_BATCH, &param) < 0 && errno == EPERM);
	return 0;
}

static int forbidden(void)
{
	char byte = 0;
	struct iovec io = {&byte, 1};
	char *const argv[] = {"/bin/true", NULL};

	EXPECT(open("/etc/passwd", O_RDONLY) < 0 && errno == EPERM);
	EXPECT(open("/tmp/gospect-test", O_RDWR | O_CREAT, 0600) < 0 && errno == EPERM);
	EXPECT(creat("/tmp/gospect-test", 0600) < 0 && errno == EPERM);
	EXPECT(unlink("/tmp/gospect-none") < 0 && errno == EPERM);
	EXPECT(rename("/tmp/a", "/tmp/b") < 0 && errno == EPERM);
	EXPECT(link("/tmp/a", "/tmp/b") < 0 && errno == EPERM);
	EXPECT(mkdir("/tmp/gospect-none", 0700) < 0 && errno == EPERM);
	EXPECT(chmod("/tmp", 0777) < 0 && errno == EPERM);
	EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(execv(argv[0], argv) < 0 && errno == EPERM);
	EXPECT(fork() < 0 && errno == EPERM);
	EXPECT(vfork() < 0);
	EXPECT(ptrace(PTRACE_SEIZE, parent, 0, 0) < 0 && errno == EPERM);
	EXPECT(process_vm_readv(parent, &io, 1, &io, 1, 0) < 0 && errno == EPERM);
	EXPECT(process_vm_writev(parent, &io, 1, &io, 1, 0) < 0 && errno == EPERM);
	EXPECT(kill(parent, SIGCONT) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_tgkill, parent, parent, SIGCONT) < 0 && errno == EPERM);
	EXPECT(prlimit(parent, RLIMIT_CORE, NULL, NULL) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_bpf, 5 /* BPF_PROG_LOAD */, NULL, 0) < 0 && errno == EPERM);
	EXPECT(ioctl(0, TIOCSTI, "x") < 0 && errno == EPERM);
	EXPECT(syscall(SYS_pidfd_open, parent, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_rt_sigqueueinfo, parent, SIGCONT, NULL) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_tkill, parent, SIGCONT) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_process_madvise, 0, NULL, 0, 0, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_personality, 0) < 0 && errno == EPERM);
	EXPECT(unshare(CLONE_NEWUSER) < 0 && errno == EPERM);
	EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	       MAP_FAILED);
	return 0;
}

static void filter_forbids_harmful_system_calls(void **state)
{
	const struct sandbox_options options = {0};

	assert_int_equal(confined(&options, forbidden), 0);
	assert_int_equal(confined(&options, forbidden_to_descriptors), 0);
	assert_int_equal(confined(&options, forbidden_to_priorities), 0);
}

static void *nothing(void *arg)
{
	return arg;
}

static int allowed(void)
{
	int pipes[2], fd;
	char byte = 'x';
	pthread_t thread;
	void *result = NULL;

	EXPECT(!pipe2(pipes, O_CLOEXEC));
	EXPECT(write(pipes[1], &byte, 1) == 1 && read(pipes[0], &byte, 1) == 1);
	EXPECT(!pthread_create(&thread, NULL, nothing, &byte));
	EXPECT(!pthread_join(thread, &result) && result == &byte);
	free(malloc(1 << 24));
	EXPECT(!usleep(1));
	EXPECT((fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)) >= 0);
	EXPECT(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	EXPECT(fcntl(fd, F_GET_SEALS) == F_SEAL_SHRINK);
	EXPECT(fcntl(fd, F_DUPFD, 10) >= 10 && fcntl(fd, F_DUPFD_CLOEXEC, 10) >= 10);
	EXPECT(!fcntl(pipes[0], F_SETFL, fcntl(pipes[0], F_GETFL) | O_NONBLOCK));
	EXPECT(!fcntl(fd, F_SETFD, 0) && !fcntl(fd, F_GETFD));
	EXPECT(!setpriority(PRIO_PROCESS, 0, 19));
	return 0;
}

static void filter_allows_the_calls_of_a_parser(void **state)
{
	assert_int_equal(confined(&(struct sandbox_options){0}, allowed), 0);
}

static int nothing_comes_back(void)
{
	char line[256];
	unsigned long effective = ~0ul, permitted = ~0ul, no_new_privs = 0, seccomp = 0;
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", getpid());
	f = door_fopen(path);
	EXPECT(f);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "CapEff: %lx", &effective);
		sscanf(line, "CapPrm: %lx", &permitted);
		sscanf(line, "NoNewPrivs: %lu", &no_new_privs);
		sscanf(line, "Seccomp: %lu", &seccomp);
	}
	fclose(f);
	EXPECT(!(effective & ~(1ul << CAP_SYS_PTRACE)));
	EXPECT(permitted == effective);
	EXPECT(no_new_privs == 1 && seccomp == 2);
	return 0;
}

static void capabilities_are_given_up_for_good(void **state)
{
	const struct sandbox_options keep = {.keep = 1ull << CAP_SYS_PTRACE};

	assert_int_equal(confined(&keep, nothing_comes_back), 0);
}

/* ---- through the broker ---- */

static int open_files(void)
{
	char byte;
	int fd;

	/* The user's file, whatever it is; programs; the kernel's facts about the machine. */
	fd = door_open("text", 0);
	EXPECT(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 't');
	EXPECT(write(fd, "x", 1) < 0);
	EXPECT(door_open("/bin/true", 0) >= 0);
	EXPECT(door_open("/bin", O_DIRECTORY) >= 0);
	EXPECT(door_open("/proc/sys/kernel/osrelease", 0) >= 0);
	/* Refused: files that are no program, and files of other processes. */
	EXPECT(door_open("/etc/passwd", 0) < 0 && errno == EACCES);
	EXPECT(door_open("/proc/sys/../../etc/passwd", 0) < 0 && errno == EACCES);
	EXPECT(door_open("link", 0) < 0 && errno == EACCES);
	EXPECT(door_open("fifo", 0) < 0 && errno == EMEDIUMTYPE);
	EXPECT(door_open("/dev/null", 0) < 0 && errno == EMEDIUMTYPE);
	EXPECT(door_open("/proc/1/mem", 0) < 0 && errno == EACCES);
	EXPECT(door_open("/proc/self/mem", 0) < 0 && errno == EACCES);
	EXPECT(door_open("/proc/1/environ", 0) < 0 && errno == EACCES);
	EXPECT(door_open("/no/such", 0) < 0 && errno == ENOENT);
	return 0;
}

static void the_broker_opens_what_its_policy_allows(void **state)
{
	const char *const named[] = {"text", NULL};
	FILE *f = fopen("text", "we");

	assert_non_null(f);
	fputs("text", f);
	fclose(f);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(symlink("/etc/passwd", "link"), 0);
	assert_int_equal(confined(&(struct sandbox_options){.policy.named = named}, open_files), 0);
}

static int look_at_process(void)
{
	char path[64], byte = 0;
	struct iovec local = {&byte, 1}, remote = {(void *)&parent, 1};
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_CPU_CLOCK};
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", parent);
	EXPECT(door_open(path, 0) >= 0);
	snprintf(path, sizeof(path), "/proc/%d/exe", parent);
	EXPECT(door_open(path, 0) >= 0);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", parent, parent);
	EXPECT(door_open(path, 0) >= 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/0", parent);
	EXPECT(door_open(path, 0) < 0 && errno == EACCES);
	snprintf(path, sizeof(path), "/proc/%d/root/etc/passwd", parent);
	EXPECT(door_open(path, 0) < 0 && errno == EACCES);
	EXPECT(process_vm_readv(parent, &local, 1, &remote, 1, 0) == 1);
	EXPECT(process_vm_writev(parent, &local, 1, &remote, 1, 0) < 0 && errno == EPERM);
	fd = door_perf_event(&attr, 1, -1);
	EXPECT(fd < 0 && errno == ESRCH);
	attr.type = PERF_TYPE_TRACEPOINT;
	EXPECT(door_perf_event(&attr, parent, -1) < 0 && errno == EACCES);
	return 0;
}

static void sandbox_reads_one_process_only(void **state)
{
	const struct sandbox_options look = {.policy.pid = parent, .keep = 1ull << CAP_SYS_PTRACE};

	assert_int_equal(confined(&look, look_at_process), 0);
}

/* ---- files that are made later ---- */

static bool is_refused(const char *path, const struct outfile_rule *rule)
{
	struct outfile out = {0};
	bool refused = error_dropped(outfile_open_new(path, rule, &out));

	outfile_abandon(&out);
	return refused;
}

/* A process that parses hostile bytes may send any request, with a rule of its own. */
static const char *const all_folders[] = {"", "sub", "/tmp", "link", NULL};
static const char *const all_endings[] = {"", ".txt", ".folded", NULL};
static const struct outfile_rule lax = {all_folders, all_endings};

static bool publish(int fd)
{
	struct door_call call = {.size = 1, .fds = {dup(fd)}, .fd_count = 1};
	bool failed = error_dropped(door_call(DOOR_OUTFILE, &call));

	return !failed;
}

static int make_files(void)
{
	struct outfile out = {0};
	char other[] = "other";
	int fd;

	EXPECT(is_refused("sub/x.folded", &lax));
	EXPECT(is_refused("link/x.folded", &lax));
	EXPECT(is_refused("x.txt", &lax));
	EXPECT(is_refused(".folded", &lax));
	EXPECT(is_refused("there.folded", &lax));
	EXPECT(is_refused("dangling.folded", &lax));
	EXPECT(is_refused("fifo.folded", &lax));
	EXPECT(!is_refused("abandoned.folded", &lax));
	EXPECT(!outfile_open_new("new.folded", &lax, &out));
	EXPECT(fputs("new", out.stream) >= 0);
	/* Another file than the one that was opened gets no name. */
	fd = memfd_create(other, MFD_CLOEXEC);
	EXPECT(!publish(fd));
	EXPECT(!outfile_commit(&out));
	outfile_abandon(&out);
	/* No other file of that name has been replaced. */
	EXPECT(is_refused("new.folded", &lax));
	EXPECT(!outfile_open_new("late.folded", &lax, &out));
	return 0;
}

static void assert_content(const char *path, const char *expected)
{
	char text[64] = "";
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, expected);
}

static void files_that_the_user_names_later_are_new_and_nothing_else(void **state)
{
	static const char *const folders[] = {"", NULL}, *const endings[] = {".folded", NULL};
	static struct outfile_service outputs = {.names = {folders, endings}};
	const struct sandbox_options options = {
		.policy.services[DOOR_OUTFILE] = {outfile_serve, &outputs}};
	struct stat st;
	FILE *f = fopen("there.folded", "we");

	assert_non_null(f);
	fputs("mine", f);
	fclose(f);
	assert_int_equal(mkdir("sub", 0700), 0);
	assert_int_equal(symlink("sub", "link"), 0);
	assert_int_equal(symlink("victim", "dangling.folded"), 0);
	assert_int_equal(mkfifo("fifo.folded", 0600), 0);
	assert_int_equal(confined(&options, make_files), 0);
	assert_content("there.folded", "mine");
	assert_content("new.folded", "new");
	assert_int_equal(stat("new.folded", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_not_equal(access("victim", F_OK), 0);
	assert_int_not_equal(access("abandoned.folded", F_OK), 0);
	assert_int_not_equal(access("late.folded", F_OK), 0);
	assert_int_not_equal(access("sub/x.folded", F_OK), 0);
}

/* It has no name before it is published, and then a new one. */
static int make_numbered_files(void)
{
	struct outfile out = {0};

	for (int i = 0; i < 2; i++) {
		EXPECT(!outfile_open_numbered("sub/t-1", "-x.trace", &out));
		EXPECT(fputs("new", out.stream) >= 0);
		EXPECT(!outfile_commit(&out));
		EXPECT(!strcmp(out.path, i ? "sub/t-1-4-x.trace" : "sub/t-1-2-x.trace"));
		outfile_abandon(&out);
	}
	EXPECT(error_dropped(outfile_open_numbered("sub/u-1", "-x.trace", &out)));
	EXPECT(error_dropped(outfile_open_numbered("sub/t-/../../t", "-x.trace", &out)));
	EXPECT(error_dropped(outfile_open_numbered("sub/t", "-1.trace", &out)));
	EXPECT(error_dropped(outfile_open_numbered("", "sub/t-1-x.trace", &out)));
	EXPECT(is_refused("sub/t-1.folded", &lax));
	return 0;
}

static void numbered_files_replace_nothing_and_are_of_one_family(void **state)
{
	static struct outfile_service outputs = {.family = "sub/t-"};
	const struct sandbox_options options = {
		.policy.services[DOOR_OUTFILE] = {outfile_serve, &outputs}};
	FILE *f;

	assert_int_equal(mkdir("sub", 0700), 0);
	f = fopen("sub/t-1-x.trace", "we");
	assert_non_null(f);
	fputs("mine", f);
	fclose(f);
	assert_int_equal(symlink("victim", "sub/t-1-3-x.trace"), 0);
	assert_int_equal(confined(&options, make_numbered_files), 0);
	assert_content("sub/t-1-x.trace", "mine");
	assert_content("sub/t-1-2-x.trace", "new");
	assert_content("sub/t-1-4-x.trace", "new");
	assert_int_not_equal(access("sub/victim", F_OK), 0);
}

static int make_any_file(void)
{
	EXPECT(is_refused("new.folded", &lax));
	return 0;
}

static void broker_without_a_rule_creates_no_file(void **state)
{
	static struct outfile_service outputs;
	const struct sandbox_options options = {
		.policy.services[DOOR_OUTFILE] = {outfile_serve, &outputs}};

	assert_int_equal(confined(&options, make_any_file), 0);
	assert_int_not_equal(access("new.folded", F_OK), 0);
}

static int take_memory(void)
{
	EXPECT(!malloc(1ull << 30));
	EXPECT(malloc(1 << 20));
	return 0;
}

static void memory_is_limited(void **state)
{
	assert_int_equal(confined(&(struct sandbox_options){.memory = 64 << 20}, take_memory), 0);
}

static int take_time(void)
{
	for (volatile int i = 0;; i++)
		;
	return 0;
}

static void processor_time_is_limited(void **state)
{
	int status = confined(&(struct sandbox_options){.cpu_seconds = 1}, take_time);

	assert_true(status == 1000 + SIGXCPU || status == 1000 + SIGKILL);
}

/* The broker must hold no descriptor whose end a reader waits for. */
static void a_reader_sees_the_end_of_a_process_that_was_killed(void **state)
{
	int ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		if (error_dropped(sandbox_enter(&(struct sandbox_options){0})))
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	usleep(20000);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
}

/* ---- a process that answers clients ---- */

static int listener = -1;

/* It can accept a connection, and do nothing else that a parser cannot. */
static int serve(void)
{
	int fd;

	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || shutdown(fd, SHUT_RDWR))
		return 1;
	if (open("/dev/null", O_RDONLY) >= 0 || errno != EPERM)
		return 2;
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		return 3;
	if (fork() >= 0 || errno != EPERM)
		return 4;
	if (!kill(parent, 0) || errno != EPERM)
		return 5;
	if (ptrace(PTRACE_ATTACH, parent, NULL, NULL) != -1 || errno != EPERM)
		return 6;
	return 0;
}

static void a_server_accepts_connections_and_has_no_privilege(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(at);
	int status, client = socket(AF_UNIX, SOCK_STREAM, 0);
	pid_t pid;

	/* The kernel chooses a name in no folder. */
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, size), 0);
	pid = fork();
	if (!pid)
		_exit(error_dropped(sandbox_enter_server(64 << 20)) ? 99 : serve());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(client);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_accepts_connections_and_has_no_privilege),
		cmocka_unit_test(filter_forbids_harmful_system_calls),
		cmocka_unit_test(filter_allows_the_calls_of_a_parser),
		cmocka_unit_test(capabilities_are_given_up_for_good),
		TEST_IN_FOLDER(the_broker_opens_what_its_policy_allows),
		cmocka_unit_test(sandbox_reads_one_process_only),
		TEST_IN_FOLDER(files_that_the_user_names_later_are_new_and_nothing_else),
		TEST_IN_FOLDER(numbered_files_replace_nothing_and_are_of_one_family),
		TEST_IN_FOLDER(broker_without_a_rule_creates_no_file),
		cmocka_unit_test(memory_is_limited),
		cmocka_unit_test(processor_time_is_limited),
		cmocka_unit_test(a_reader_sees_the_end_of_a_process_that_was_killed),
	};

	parent = getpid();
	if (!sandbox_is_built()) {
		printf("1..0 # SKIP built with a sanitizer, which gospect does not confine\n");
		return 0;
	}
	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
