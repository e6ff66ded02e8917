/* Whether a thread goes on in certain code when its signal handlers return: of a child of ours. */
#include <alloca.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "inject/interrupted.h"

/* Where the child is when the first signal comes. */
__asm__(".text\n"
	"spins: pause; jmp spins\n"
	"spins_end:\n"
	"spins_too: pause; jmp spins_too\n"
	"spins_too_end:\n");
void spins(void);
void spins_too(void);
extern const char spins_end[];

#define DEEP 300000
#define MOST (16u << 20)
#define PIECE 32768

static bool is_spins(const void *arg, uint64_t pc)
{
	return pc >= (uint64_t)spins && pc < (uint64_t)spins_end;
}

/* The child's report: the number of handlers it is in, all as deep as possible. */
static volatile sig_atomic_t *in_handlers;

static void wait_deep(int signal)
{
	volatile char *deep = alloca(DEEP);

	memset((char *)deep, 0x55, DEEP);
	++*in_handlers;
	for (;;)
		deep[0]++;
}

struct handlers {
	int on_stack[2]; /* of SIGUSR1, and of SIGUSR2, which comes while that is handled; -1: none
			  */
	void (*interrupted)(void);
};

static void handle(int signal, int on_stack)
{
	struct sigaction action = {.sa_handler = wait_deep, .sa_flags = on_stack ? SA_ONSTACK : 0};

	if (on_stack >= 0)
		sigaction(signal, &action, NULL);
}

static void run_child(const struct handlers *h)
{
	stack_t stack = {.ss_size = 3 * DEEP};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	sigaltstack(&stack, NULL);
	handle(SIGUSR1, h->on_stack[0]);
	handle(SIGUSR2, h->on_stack[1]);
	*in_handlers = 0;
	h->interrupted();
	_exit(1);
}

static pid_t start(const struct handlers *h)
{
	static const int signals[] = {SIGUSR1, SIGUSR2};
	pid_t pid;

	*in_handlers = -1;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		run_child(h);
	for (int i = 0; i < 2; i++) {
		while (*in_handlers < i)
			usleep(1000);
		usleep(20000); /* until it is where it spins */
		if (h->on_stack[i] < 0)
			break;
		kill(pid, signals[i]);
		while (*in_handlers <= i)
			usleep(1000);
	}
	return pid;
}

static enum interrupted look(const struct handlers *h, size_t most)
{
	struct user_regs_struct u;
	struct target *t;
	enum interrupted ret;
	uint64_t mask;
	int status;
	pid_t pid = start(h);

	assert_null(target_open_process(pid, &t));
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &u), 0);
	assert_int_equal(ptrace(PTRACE_GETSIGMASK, pid, sizeof(mask), &mask), 0);
	ret = interrupted_look(t, u.rsp, u.fs_base, mask, &most,
			       (struct interrupted_place){is_spins, NULL});
	target_close(t);
	kill(pid, SIGKILL);
	waitpid(pid, &status, __WALL);
	return ret;
}

static void interrupted_function_is_found_below_a_deep_handler(void **state)
{
	assert_int_equal(look(&(struct handlers){{1, -1}, spins}, MOST), INTERRUPTED_THERE);
	assert_int_equal(look(&(struct handlers){{0, -1}, spins}, MOST), INTERRUPTED_THERE);
}

static void interrupted_function_is_found_below_nested_handlers(void **state)
{
	for (int i = 0; i < 4; i++)
		assert_int_equal(look(&(struct handlers){{i & 1, i >> 1}, spins}, MOST),
				 INTERRUPTED_THERE);
}

static void interruption_elsewhere_is_distinguished(void **state)
{
	for (int i = 0; i < 4; i++)
		assert_int_equal(look(&(struct handlers){{i & 1, i >> 1}, spins_too}, MOST),
				 INTERRUPTED_ELSEWHERE);
	assert_int_equal(look(&(struct handlers){{-1, -1}, spins_too}, MOST),
			 INTERRUPTED_ELSEWHERE);
}

/* Calls, with a frame, as one that was called from spins() would have it. */
__asm__("calls: push %rbp; lea 64(%rsp), %rbp; sub $64, %rsp\n"
	"lea spins(%rip), %rax; push %rax; push %rbp; sub $512, %rsp; call spins_too\n");
void calls(void);

static void blocks_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	calls();
}

static void thread_that_blocks_signals_is_in_no_handler(void **state)
{
	assert_int_equal(look(&(struct handlers){{-1, -1}, blocks_signals}, MOST),
			 INTERRUPTED_ELSEWHERE);
}

static void truncated_signal_stack_is_unknown(void **state)
{
	assert_int_equal(look(&(struct handlers){{1, -1}, spins}, DEEP / 2), INTERRUPTED_UNKNOWN);
}

/* The limit of bytes counts over all threads. */
static void the_bytes_that_may_be_read_are_counted(void **state)
{
	const struct interrupted_place nowhere = {is_spins, NULL};
	size_t left = 3 * PIECE, before;
	void *zeroes =
		mmap(NULL, 8 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct target *t;

	assert_true(zeroes != MAP_FAILED);
	assert_null(target_open_process(getpid(), &t));
	assert_int_equal(interrupted_look(t, (uint64_t)zeroes, 0, 1, &left, nowhere),
			 INTERRUPTED_UNKNOWN);
	assert_int_equal(left, 0);
	assert_int_equal(interrupted_look(t, (uint64_t)zeroes, 0, 1, &left, nowhere),
			 INTERRUPTED_UNKNOWN);
	assert_int_equal(interrupted_look(t, (uint64_t)zeroes, 0, 0, &left, nowhere),
			 INTERRUPTED_ELSEWHERE);
	left = before = 64 * PIECE;
	interrupted_look(t, (uint64_t)zeroes + 7 * PIECE, 0, 1, &left, nowhere);
	assert_in_range(before - left, PIECE / 2, 64 * PIECE);
	target_close(t);
	munmap(zeroes, 8 * PIECE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interrupted_function_is_found_below_a_deep_handler),
		cmocka_unit_test(interrupted_function_is_found_below_nested_handlers),
		cmocka_unit_test(interruption_elsewhere_is_distinguished),
		cmocka_unit_test(thread_that_blocks_signals_is_in_no_handler),
		cmocka_unit_test(truncated_signal_stack_is_unknown),
		cmocka_unit_test(the_bytes_that_may_be_read_are_counted),
	};

	in_handlers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
