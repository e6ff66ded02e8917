/* Stopping the threads of a child, of which one ends when it is to be traced. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "inject/threads.h"

/* Shared with the child. */
static struct {
	volatile pid_t ending; /* the thread that ends; 0: it has not begun */
	volatile bool may_end;
} * shared;
static pid_t child;

static void *end_later(void *arg)
{
	shared->ending = gettid();
	while (!shared->may_end)
		usleep(1000);
	return NULL;
}

static void run_child(void)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, end_later, NULL))
		_exit(1);
	for (;;)
		pause();
}

/* In place of the C library's: the thread is ending when it is asked for, and gone when that has
 * failed. Linux answers so between the two. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list args;
	void *address, *data;
	pid_t id;

	va_start(args, request);
	id = va_arg(args, pid_t);
	address = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if (request != PTRACE_SEIZE || id != shared->ending)
		return syscall(SYS_ptrace, request, id, address, data);
	shared->may_end = true;
	while (!tgkill(child, id, 0))
		usleep(1000);
	errno = EPERM;
	return -1;
}

static void a_thread_that_ends_when_it_is_asked_for_is_no_error(void **state)
{
	struct threads t = {0};
	uint64_t since;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	child = fork();
	if (!child)
		run_child();
	while (!shared->ending)
		usleep(1000);

	t.pid = child;
	assert_null(threads_stop_all(&t, &since));
	assert_true(shared->may_end);
	assert_int_equal(t.count, 2);
	for (size_t i = 0; i < t.count; i++)
		assert_true(t.items[i].id == child ? t.items[i].stopped : t.items[i].gone);
	threads_resume(&t);
	threads_release(&t);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_ends_when_it_is_asked_for_is_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
