#include "cli/record_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <gospect/confine.h>
#include <gospect/target.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/stop.h"

struct work {
	pid_t target;
	const struct gospect_record_options *recording;
	uint64_t memory;
	int to;
};

static int put_all(int fd, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0) {
			from += n;
			size -= n;
		}
	}
	return 0;
}

static int put_frame(int fd, enum worker_frame kind, const void *bytes, size_t size)
{
	const struct worker_head head = {kind, size};
	int failed = put_all(fd, &head, sizeof(head));

	return failed ? failed : put_all(fd, bytes, size);
}

static void put_remark(void *arg, const char *line)
{
	const struct work *w = arg;

	put_frame(w->to, WORKER_REMARK, line, strnlen(line, WORKER_MAX_FRAME));
}

static int put_profile(void *arg, const void *bytes, size_t size)
{
	const struct work *w = arg;
	const char *from = bytes;
	int failed = 0;

	while (!failed && size) {
		size_t n = size < WORKER_MAX_FRAME ? size : WORKER_MAX_FRAME;

		failed = put_frame(w->to, WORKER_PROFILE, from, n);
		from += n;
		size -= n;
	}
	return failed;
}

static void put_error(const struct work *w, const struct error *err)
{
	char bytes[4096];
	uint32_t code = err->code;
	size_t length = strnlen(err->message, sizeof(bytes) - sizeof(code));

	memcpy(bytes, &code, sizeof(code));
	memcpy(bytes + sizeof(code), err->message, length);
	put_frame(w->to, WORKER_ERROR, bytes, sizeof(code) + length);
}

static struct error *must_check hand_over(const struct work *w, const struct gospect_profile *p)
{
	const struct gospect_profile_info *info = gospect_profile_info(p);
	const struct worker_numbers numbers = {info->goroutines, info->cpu_percent};
	struct error *err =
		library_error(gospect_profile_write(p, GOSPECT_PPROF_IDLE,
						    gospect_sink_function(put_profile, (void *)w)));

	if (err)
		return err;
	put_frame(w->to, WORKER_NUMBERS, &numbers, sizeof(numbers));
	put_frame(w->to, WORKER_DONE, NULL, 0);
	return NULL;
}

static struct error *must_check confine(const struct work *w)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .pid = w->target,
						    .flags = GOSPECT_CONFINE_SAMPLES,
						    .memory = w->memory,
						    .remark = put_remark,
						    .arg = (void *)w};

	return library_error(gospect_confine(&how));
}

static struct error *must_check record(const struct work *w)
{
	const struct gospect_target_options how = {.size = sizeof(how),
						   .cancel = stop_cancel,
						   .remark = put_remark,
						   .arg = (void *)w};
	struct gospect_profile *p = NULL;
	struct gospect_target *target = NULL;
	struct error *err = confine(w);

	if (!err)
		err = library_error(gospect_target_open_process(w->target, &how, &target));
	if (!err)
		err = library_error(gospect_record(target, w->recording, &p));
	if (!err)
		err = hand_over(w, p);
	gospect_profile_destroy(p);
	gospect_target_close(target);
	return err;
}

/* A byte in the pipe is SIGIO, which stop_on_signals() handles. */
static void stop_on_byte(int fd)
{
	fcntl(fd, F_SETOWN, getpid());
	fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
}

static _Noreturn void work(const struct work *w, pid_t parent)
{
	struct error *err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	err = record(w);
	if (err)
		put_error(w, err);
	gospect_confine_end();
	_exit(err ? 1 : 0);
}

static void close_others(const struct record_worker *others, size_t count, int unneeded)
{
	for (size_t i = 0; i < count; i++) {
		close(others[i].result);
		close(others[i].stop);
	}
	if (unneeded > STDERR_FILENO)
		close(unneeded);
}

struct error *record_worker_start(struct record_worker *w, pid_t target,
				  const struct gospect_record_options *recording, uint64_t memory,
				  const struct record_worker *others, size_t count, int unneeded)
{
	pid_t parent = getpid(), pid;
	int result[2], stop[2];

	if (pipe2(result, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot create a pipe");
	if (pipe2(stop, O_CLOEXEC)) {
		close(result[0]);
		close(result[1]);
		return error_errno(ERROR_FAILED, errno, "cannot create a pipe");
	}
	pid = fork();
	if (!pid) {
		const struct work job = {target, recording, memory, result[1]};

		close_others(others, count, unneeded);
		close(result[0]);
		close(stop[1]);
		stop_on_byte(stop[0]);
		work(&job, parent);
	}
	close(result[1]);
	close(stop[0]);
	*w = (struct record_worker){target, pid, result[0], stop[1]};
	if (pid > 0)
		return NULL;
	close(result[0]);
	close(stop[1]);
	return error_errno(ERROR_FAILED, errno, "cannot start a process");
}
