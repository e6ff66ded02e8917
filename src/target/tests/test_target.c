#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "target/proc_status.h"
#include "target/target.h"

static char known[] = "known bytes of the parent and its child";

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void process_reads_ranges_in_order_and_stops_at_a_hole(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	char a[5] = "", b[7] = "", packed[16] = "";
	size_t done;
	pid_t pid = start_child();
	struct target_range ranges[] = {{(uint64_t)known, 4, a},
					{(uint64_t)known + 6, 6, b},
					{8, 4, b},
					{(uint64_t)known, 4, a}};

	assert_null(target_open_process(pid, &t));
	assert_null(target_read_ranges(t, ranges, 4, &done));
	assert_int_equal(done, 2);
	assert_string_equal(a, "know");
	assert_string_equal(b, "bytes ");
	assert_null(target_read_packed(t, ranges, 2, packed, &done));
	assert_int_equal(done, 2);
	assert_string_equal(packed, "knowbytes ");
	assert_ptr_equal(target_read(t, 8, a, 4), &error_fault);
	end_child(pid);
}

static void process_that_ends_is_gone(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_error_ struct error *checked = NULL, *read = NULL;
	char byte;
	pid_t pid = start_child();

	assert_null(target_open_process(pid, &t));
	assert_null(target_check(t));
	end_child(pid);
	checked = target_check(t);
	assert_int_equal(checked->code, ERROR_GONE);
	assert_non_null(strstr(checked->message, "has exited"));
	read = target_read(t, (uint64_t)known, &byte, 1);
	assert_int_equal(read->code, ERROR_GONE);
}

/* A child that takes a while between the end of its memory and its own end. */
static pid_t start_child_with_files(void)
{
	int pipes[2];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 900; i++)
			dup2(pipes[0], 100 + i);
		if (write(pipes[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &(char){0}, 1), 1);
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

static void process_that_is_dying_has_not_called_exec(void **state)
{
	for (int i = 0; i < 20; i++) {
		_cleanup_target_ struct target *t = NULL;
		_cleanup_error_ struct error *gone = NULL, *opened = NULL;
		struct target *again = NULL;
		pid_t pid = start_child_with_files();

		assert_null(target_open_process(pid, &t));
		kill(pid, SIGKILL);
		while (!(gone = target_check(t)))
			;
		opened = target_open_process(pid, &again);
		end_child(pid);
		assert_non_null(strstr(gone->message, "has exited"));
		assert_non_null(opened);
		assert_int_equal(opened->code, ERROR_GONE);
	}
}

static void process_that_calls_exec_is_gone_too(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_error_ struct error *err = NULL;
	int pipes[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		if (read(pipes[0], &byte, 1) == 1)
			execlp("sleep", "sleep", "100", NULL);
		_exit(1);
	}
	assert_null(target_open_process(pid, &t));
	assert_int_equal(write(pipes[1], &byte, 1), 1);
	for (int i = 0; i < 1000 && !(err = target_check(t)); i++)
		usleep(5000);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_GONE);
	assert_non_null(strstr(err->message, "exec"));
	end_child(pid);
}

static void missing_process_is_reported(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_error_ struct error *err = target_open_process(0x3ffffffe, &t);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_GONE);
	assert_non_null(strstr(err->message, "no such process"));
}

static void maps_hold_our_own_code(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_maps_ struct target_maps maps = {0};
	const struct target_map *map;
	uint64_t entry;

	assert_null(target_open_process(getpid(), &t));
	assert_null(target_maps(t, &maps));
	assert_null(target_entry(t, &entry));
	map = target_maps_find(&maps, entry);
	assert_non_null(map);
	assert_true(map->executable && !map->writable);
	assert_string_equal(map->path, target_exe_name(t));
	assert_null(target_maps_find(&maps, 8));
}

static void threads_hold_the_main_thread(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count;

	assert_null(target_open_process(getpid(), &t));
	assert_null(target_threads(t, &threads, &count));
	assert_true(count >= 1);
	assert_int_equal(threads[0].id, getpid());
	assert_int_equal(threads[0].inner, getpid());
}

/* A child with this command line. */
static pid_t start_sleep(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/sleep", "a name", "100", (char *)NULL);
		_exit(1);
	}
	return pid;
}

static void a_process_is_named_by_its_files(void **state)
{
	char command[64] = "", comm[16], exe[PATH_MAX], path[PROCESS_EXE_PATH], real[PATH_MAX];
	pid_t pid = start_sleep();

	assert_non_null(realpath("/bin/sleep", real));
	/* Until it has called exec, it is a copy of this test. */
	for (int i = 0; i < 1000 && strncmp(command, "a name", 6); i++) {
		usleep(10000);
		process_command(pid, command, sizeof(command));
	}
	process_comm(pid, comm);
	process_exe_path(pid, path);
	assert_string_equal(command, "a name 100");
	assert_string_equal(comm, "sleep");
	assert_true(process_exe(pid, exe));
	assert_string_equal(exe, real);
	assert_int_equal(access(path, X_OK), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	process_command(pid, command, sizeof(command));
	assert_string_equal(command, "");
	assert_false(process_exe(pid, exe));
}

static void lists_have_this_process_and_its_descriptors(void **state)
{
	_cleanup_closedir_ DIR *processes = process_folder_open();
	_cleanup_closedir_ DIR *descriptors = descriptor_folder_open(0);
	int fd = dup(0), found;
	char to[64];
	pid_t pid;

	while ((pid = process_folder_next(processes)) && pid != getpid())
		;
	assert_int_equal(pid, getpid());
	while ((found = descriptor_folder_next(descriptors, to, sizeof(to))) >= 0 && found != fd)
		;
	assert_int_equal(found, fd);
	close(fd);
}

/* A process without free descriptors does not report that the target is gone. */
static void threads_without_descriptors_are_not_a_process_that_is_gone(void **state)
{
	const struct rlimit few = {.rlim_cur = 64, .rlim_max = 64};
	_cleanup_target_ struct target *t = NULL;
	pid_t pid = start_child(), lister;
	int status, last = -1, fd;

	lister = fork();
	if (!lister) {
		struct target_thread *threads;
		struct error *err = target_open_process(pid, &t);
		size_t count;

		if (err || setrlimit(RLIMIT_NOFILE, &few))
			_exit(1);
		while ((fd = open("/dev/null", O_RDONLY)) >= 0)
			last = fd;
		for (int i = 0; i < 2; i++) {
			err = target_threads(t, &threads, &count);
			if (!err || err->code != ERROR_FAILED ||
			    !strstr(err->message, "cannot list the threads") ||
			    !strstr(err->message, "Too many open files"))
				_exit(2);
		}
		_exit(!close(last) && !target_threads(t, &threads, &count) ? 0 : 3);
	}
	waitpid(lister, &status, 0);
	end_child(pid);
	assert_int_equal(status, 0);
}

static void memory_gives_only_what_it_holds(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	struct target_range segments[] = {{0x1000, sizeof(known), known}};
	uint32_t word;
	char text[6] = "";

	assert_null(target_open_memory(segments, 1, &t));
	assert_null(target_read(t, 0x1006, text, 5));
	assert_string_equal(text, "bytes");
	assert_ptr_equal(target_read(t, 0xfff, text, 5), &error_fault);
	assert_ptr_equal(target_read(t, 0x1000 + sizeof(known) - 3, &word, 4), &error_fault);
	assert_ptr_equal(target_read(t, UINT64_MAX - 1, &word, 4), &error_fault);
	assert_null(target_read_u32(t, 0x1000, &word));
	assert_memory_equal(&word, "know", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_reads_ranges_in_order_and_stops_at_a_hole),
		cmocka_unit_test(process_that_ends_is_gone),
		cmocka_unit_test(process_that_is_dying_has_not_called_exec),
		cmocka_unit_test(process_that_calls_exec_is_gone_too),
		cmocka_unit_test(missing_process_is_reported),
		cmocka_unit_test(maps_hold_our_own_code),
		cmocka_unit_test(threads_hold_the_main_thread),
		cmocka_unit_test(a_process_is_named_by_its_files),
		cmocka_unit_test(lists_have_this_process_and_its_descriptors),
		cmocka_unit_test(threads_without_descriptors_are_not_a_process_that_is_gone),
		cmocka_unit_test(memory_gives_only_what_it_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
