/* Code is written by ptrace where the kernel forbids it through /proc/PID/mem. */
#include "inject/code_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unit_test.h"

#define BYTES 4096

/* A child that is traced and stopped, with a read-only page; its address is free in ours. */
static pid_t child(uint8_t **ret)
{
	uint8_t *page = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;
	int status;

	assert_ptr_not_equal(page, MAP_FAILED);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	munmap(page, BYTES);
	*ret = page;
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void assert_bytes(pid_t pid, uint8_t *page, const uint8_t *expected, size_t n)
{
	for (size_t i = 0; i < n; i += sizeof(long)) {
		long word = ptrace(PTRACE_PEEKDATA, pid, page + i, NULL);

		assert_memory_equal(&word, expected + i, sizeof(word));
	}
}

static void each_length_at_each_offset_changes_these_bytes_alone(void **state)
{
	uint8_t expected[64] = {0}, bytes[24], *page;
	pid_t pid = child(&page);

	for (size_t offset = 0; offset < 16; offset++)
		for (size_t n = 0; n <= sizeof(bytes); n++) {
			memset(bytes, (int)(offset * 16 + n + 1), n);
			assert_true(code_memory_poke(pid, (uintptr_t)page + offset, bytes, n));
			memcpy(expected + offset, bytes, n);
			assert_bytes(pid, page, expected, sizeof(expected));
		}
	end(pid);
}

/* Our own memory stands for a file to which the kernel refuses to write there: EIO. */
static void without_a_stopped_thread_it_says_that_it_needs_one(void **state)
{
	_cleanup_close_ int forbidden = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	const uint8_t bytes[16] = {1, 2, 3};
	uint8_t *page;
	pid_t pid = child(&page);
	struct error *err;

	assert_true(forbidden >= 0);
	err = code_memory_write((struct code_memory){pid, forbidden, 0}, (uintptr_t)page, bytes,
				16);
	assert_ptr_equal(err, &error_fault);
	assert_null(code_memory_write((struct code_memory){pid, forbidden, pid}, (uintptr_t)page,
				      bytes, 16));
	assert_bytes(pid, page, bytes, 16);
	end(pid);
}

static void what_has_ended_and_what_is_not_there_are_told_apart(void **state)
{
	_cleanup_close_ int forbidden = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	uint8_t byte = 1, *page;
	pid_t pid = child(&page);
	struct error *err;

	err = code_memory_write((struct code_memory){pid, forbidden, pid},
				(uintptr_t)page + 1024 * 1024 * 1024 * 1024ull, &byte, 1);
	assert_int_equal(err->code, ERROR_DENIED);
	error_destroy(err);
	end(pid);
	err = code_memory_write((struct code_memory){pid, forbidden, pid}, (uintptr_t)page, &byte,
				1);
	assert_int_equal(err->code, ERROR_GONE);
	error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_length_at_each_offset_changes_these_bytes_alone),
		cmocka_unit_test(without_a_stopped_thread_it_says_that_it_needs_one),
		cmocka_unit_test(what_has_ended_and_what_is_not_there_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
