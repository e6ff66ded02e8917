/*
 * A live process, read with process_vm_readv: one system call copies up to 1024 ranges and neither
 * stops the process nor marks it. Where that call is forbidden (a seccomp filter on us, or the
 * process changed its user since it was opened), the same bytes come from /proc/PID/mem, a range a
 * call.
 *
 * /proc/PID/mem stays bound to the address space that was there when it was opened, so a read of 0
 * bytes from it is the proof that the process exited or called exec; process_vm_readv would go on
 * with the new program's memory.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "target/ops.h"
#include "target/proc_status.h"

/* An exec takes some milliseconds. */
#define EXEC_TRIES 50
#define EXEC_PAUSE_US 2000

struct process {
	struct target base;
	int proc_fd; /* the directory /proc/PID */
	int mem_fd;
	bool nested;         /* in another pid namespace than ours */
	atomic_bool use_mem; /* process_vm_readv is forbidden */
	bool looked;         /* access by PTRACE_MODE_READ was permitted */
	uint64_t entry;      /* an address that is mapped as long as the program is */
};

static int open_of(const struct process *p, const char *name, int flags)
{
	char folder[32];

	snprintf(folder, sizeof(folder), "/proc/%d", p->base.pid);
	return door_openat(p->proc_fd, folder, name, flags);
}

/*
 * A dying process loses its memory, and with it the name of its program, before its state
 * changes (Linux, kernel/exit.c: do_exit). A process in exec has the new memory before it leaves
 * the old one (fs/exec.c: exec_mmap).
 */
static bool has_program(const struct process *p)
{
	char byte;

	return readlinkat(p->proc_fd, "exe", &byte, 1) >= 0 || errno == EACCES || errno == EPERM;
}

/* When a thread other than the first calls exec, it ends all others and then becomes the first
 * (fs/exec.c: de_thread). Until then the first thread is a zombie among living threads. */
static bool is_without_first_thread(pid_t pid)
{
	char state = target_state(pid);

	return (state == 'Z' || state == 'X') && target_status_number(pid, "Threads") > 1;
}

static struct error *is_starting(const struct process *p)
{
	return error_format(ERROR_GONE, "process %d is starting its program (exec); try again",
			    p->base.pid);
}

static struct error *process_gone(const struct process *p)
{
	for (int i = 0; i < EXEC_TRIES && !has_program(p) && !process_is_dead(p->base.pid); i++)
		usleep(EXEC_PAUSE_US);
	if ((has_program(p) && !process_is_dead(p->base.pid)) ||
	    process_has_first_thread(p->base.pid))
		return error_format(ERROR_GONE,
				    "process %d became another program (it called exec)",
				    p->base.pid);
	return error_format(ERROR_GONE, "process %d has exited", p->base.pid);
}

static bool has_memory(const struct process *p)
{
	char byte;

	return pread(p->mem_fd, &byte, 1, p->entry) == 1;
}

static struct error *process_check(struct target *t)
{
	struct process *p = (struct process *)t;

	return has_memory(p) ? NULL : process_gone(p);
}

/* How many whole ranges `bytes` bytes are. */
static size_t ranges_in(const struct target_range *ranges, size_t count, size_t bytes)
{
	size_t i;

	for (i = 0; i < count && bytes >= ranges[i].size; i++)
		bytes -= ranges[i].size;
	return i;
}

static struct error *read_failed(struct process *p, int err)
{
	switch (err) {
	case ESRCH:
		return process_gone(p);
	case EPERM:
	case EACCES:
		return target_denied(p->base.pid, p->looked);
	case ENOMEM:
		return &error_no_memory;
	default:
		return &error_fault;
	}
}

static struct error *read_mem(struct process *p, const struct target_range *ranges, size_t count,
			      char *packed, size_t *ret_done)
{
	size_t i;

	for (i = 0; i < count; i++) {
		void *to = packed ? packed : ranges[i].buffer;
		ssize_t n = pread(p->mem_fd, to, ranges[i].size, ranges[i].address);

		if (!n && ranges[i].size)
			return process_gone(p);
		if (n < 0 || (size_t)n != ranges[i].size)
			break;
		packed += packed ? n : 0;
	}
	*ret_done = i;
	return NULL;
}

static struct error *process_read(struct target *t, const struct target_range *ranges, size_t count,
				  void *packed, size_t *ret_done)
{
	struct process *p = (struct process *)t;
	struct iovec remote[TARGET_MAX_RANGES], local[TARGET_MAX_RANGES];
	struct iovec whole = {packed, 0};
	ssize_t n;

	if (p->use_mem)
		return read_mem(p, ranges, count, packed, ret_done);
	for (size_t i = 0; i < count; i++) {
		remote[i] = (struct iovec){(void *)ranges[i].address, ranges[i].size};
		local[i] = (struct iovec){ranges[i].buffer, ranges[i].size};
		whole.iov_len += ranges[i].size;
	}
	n = process_vm_readv(p->base.pid, packed ? &whole : local, packed ? 1 : count, remote,
			     count, 0);
	if (n < 0 && errno == EFAULT)
		n = 0;
	/* ESRCH, and the memory is there: the first thread has ended, and others have not. */
	if (n < 0 && (errno == EPERM || errno == EACCES || (errno == ESRCH && has_memory(p)))) {
		p->use_mem = true;
		return read_mem(p, ranges, count, packed, ret_done);
	}
	if (n < 0)
		return read_failed(p, errno);
	*ret_done = ranges_in(ranges, count, n);
	return NULL;
}

static struct error *read_maps(const struct process *p, const char *name, struct target_maps *ret)
{
	_cleanup_maps_ struct target_maps maps = {0};
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	int fd = open_of(p, name, 0);

	if (fd < 0)
		return read_failed((struct process *)p, errno == ENOENT ? ESRCH : errno);
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return &error_no_memory;
	}
	while (getline(&line, &room, f) > 0) {
		struct error *err;

		if (!array_reserve(&maps.items, &maps.capacity, maps.count + 1))
			return &error_no_memory;
		err = target_parse_map(line, &maps.items[maps.count]);
		if (err)
			return err;
		maps.count++;
	}
	*ret = maps;
	maps = (struct target_maps){0};
	return NULL;
}

static struct error *must_check threads_failed(const struct process *p, int err)
{
	if (err == ENOENT || err == ESRCH)
		return process_gone(p);
	return error_errno(ERROR_FAILED, err, "cannot list the threads of process %d", p->base.pid);
}

static struct error *process_threads(struct target *t, struct target_thread **ret,
				     size_t *ret_count)
{
	struct process *p = (struct process *)t;
	_cleanup_closedir_ DIR *dir = NULL;
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count = 0, capacity = 0;
	int fd = open_of(p, "task", O_DIRECTORY);
	pid_t id;

	if (fd < 0)
		return threads_failed(p, errno);
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return &error_no_memory;
	}
	while ((id = task_folder_next(dir))) {
		if (!array_reserve(&threads, &capacity, count + 1))
			return &error_no_memory;
		threads[count++] = (struct target_thread){
			.id = id,
			.inner = p->nested ? target_inner_id(id) : id,
		};
	}
	*ret = take_ptr(threads);
	*ret_count = count;
	return NULL;
}

static struct error *process_open_exe(struct target *t, int *ret_fd)
{
	struct process *p = (struct process *)t;
	int fd = open_of(p, "exe", 0);

	if (fd >= 0) {
		*ret_fd = fd;
		return NULL;
	}
	if (errno == ENOENT)
		return error_format(ERROR_NOT_GO,
				    "process %d has no program file: it is a thread "
				    "of the kernel, or has exited",
				    t->pid);
	if (errno == EACCES || errno == EPERM)
		return error_format(
			ERROR_DENIED,
			"can read the memory of process %d but not its program file %s; make the file readable (chmod a+r), or run gospect as its owner or as root with CAP_DAC_READ_SEARCH",
			t->pid, t->exe_name);
	return error_errno(ERROR_FAILED, errno, "cannot open the program of process %d", t->pid);
}

/* The first thread has no mappings once it has ended before the others. */
static struct error *process_maps(struct target *t, struct target_maps *ret)
{
	struct process *p = (struct process *)t;
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count = 0;
	struct error *err = read_maps(p, "maps", ret);

	if (err || ret->count || !has_memory(p))
		return err;
	err = process_threads(t, &threads, &count);
	for (size_t i = 0; !err && i < count && !ret->count; i++) {
		char name[32];

		target_maps_release(ret);
		snprintf(name, sizeof(name), "task/%d/maps", threads[i].id);
		error_destroy(read_maps(p, name, ret));
	}
	return err;
}

static bool process_has_descriptor(const struct target *t, int fd)
{
	const struct process *p = (const struct process *)t;

	return fd == p->proc_fd || fd == p->mem_fd;
}

static struct error *process_entry(struct target *t, uint64_t *ret)
{
	*ret = ((struct process *)t)->entry;
	return NULL;
}

static void process_close(struct target *t)
{
	struct process *p = (struct process *)t;

	if (p->proc_fd >= 0)
		close(p->proc_fd);
	if (p->mem_fd >= 0)
		close(p->mem_fd);
	free(p->base.exe_name);
	free(p);
}

static const struct target_ops process_ops = {
	.read = process_read,
	.check = process_check,
	.has_descriptor = process_has_descriptor,
	.maps = process_maps,
	.threads = process_threads,
	.open_exe = process_open_exe,
	.entry = process_entry,
	.close = process_close,
};

static struct error *read_entry(struct process *p)
{
	_cleanup_close_ int fd = open_of(p, "auxv", 0);
	uint64_t auxv[2 * 64];
	ssize_t n = fd < 0 ? -1 : read(fd, auxv, sizeof(auxv));

	if (n < 0)
		return read_failed(p, errno);
	if (!n)
		return process_gone(p);
	for (size_t i = 0; i + 1 < n / sizeof(auxv[0]); i += 2) {
		if (auxv[i] == AT_ENTRY) {
			p->entry = auxv[i + 1];
			return NULL;
		}
	}
	return is_starting(p);
}

/* A dying process has lost its program; a kernel thread never had one. */
static struct error *no_exe(const struct process *p)
{
	for (int i = 0; i < EXEC_TRIES && is_without_first_thread(p->base.pid); i++)
		usleep(EXEC_PAUSE_US);
	if (is_without_first_thread(p->base.pid))
		return error_format(ERROR_UNSUPPORTED,
				    "the first thread of process %d has ended while others run on "
				    "(pthread_exit() in main()); gospect cannot look at such a "
				    "process",
				    p->base.pid);
	if (target_is_kernel_thread(p->base.pid))
		return error_format(ERROR_NOT_GO,
				    "process %d is a thread of the kernel, not a Go program",
				    p->base.pid);
	if (process_is_dead(p->base.pid))
		return error_format(ERROR_GONE, "process %d has exited", p->base.pid);
	return is_starting(p);
}

static struct error *read_exe_name(struct process *p)
{
	char name[PATH_MAX];
	ssize_t n = readlinkat(p->proc_fd, "exe", name, sizeof(name) - 1);

	if (n < 0 && errno == ENOENT)
		return no_exe(p);
	if (n < 0)
		return read_failed(p, errno);
	name[n] = '\0';
	target_cut_deleted(name);
	p->looked = true;
	p->base.exe_name = strdup(name);
	return p->base.exe_name ? NULL : &error_no_memory;
}

/* Reads a byte with process_vm_readv, to learn whether we may. */
static struct error *probe(struct process *p)
{
	struct error *err = process_check(&p->base);
	struct iovec local, remote = {(void *)p->entry, 1};
	char byte;

	if (err)
		return err;
	local = (struct iovec){&byte, 1};
	if (process_vm_readv(p->base.pid, &local, 1, &remote, 1, 0) == 1)
		return NULL;
	if (errno == ESRCH)
		return process_gone(p);
	p->use_mem = true; /* it has just worked; a seccomp filter may return any errno */
	return NULL;
}

static struct error *process_open(struct process *p)
{
	char path[32];
	struct error *err = target_check_proc();

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d", p->base.pid);
	p->proc_fd = door_open(path, O_DIRECTORY);
	if (p->proc_fd < 0)
		return target_absent(p->base.pid);
	p->nested = target_is_nested(p->base.pid);
	err = read_exe_name(p);
	if (err)
		return err;
	p->mem_fd = open_of(p, "mem", 0);
	if (p->mem_fd < 0)
		return read_failed(p, errno == ENOENT ? ESRCH : errno);
	err = read_entry(p);
	return err ? err : probe(p);
}

pid_t target_process_of(pid_t id)
{
	long group = target_status_number(id, "Tgid");

	return group > 0 ? group : id;
}

static struct error *must_check try_open(pid_t pid, struct target **ret)
{
	struct process *p = calloc(1, sizeof(*p));
	struct error *err;

	if (!p)
		return &error_no_memory;
	p->base.ops = &process_ops;
	p->base.pid = pid;
	p->proc_fd = p->mem_fd = -1;
	err = process_open(p);
	if (err) {
		process_close(&p->base);
		return err;
	}
	*ret = &p->base;
	return NULL;
}

struct error *target_open_process(pid_t pid, struct target **ret)
{
	pid_t group = target_process_of(pid);
	struct error *err = try_open(group, ret);

	/* During exec a process has no program, no auxv, or the new program's memory. */
	for (int i = 0; err && i < EXEC_TRIES && err->code == ERROR_GONE && !process_is_dead(pid);
	     i++) {
		error_destroy(err);
		usleep(EXEC_PAUSE_US);
		err = try_open(group, ret);
	}
	return err;
}
