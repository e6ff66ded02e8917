#include "base/mapped_file.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/permit.h"

struct mapped_file {
	struct mapped_file *next;
	uint8_t *bytes;
	size_t size;
	_Atomic bool truncated;
	bool reported; /* by mapped_file_check() */
	bool is_copy;
	char name[];
};

/*
 * All mapped files. The SIGBUS handler may wait for the lock: a thread that holds it reads no
 * mapped file, so the handler never interrupts the holder.
 */
static struct mapped_file *files;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static _Atomic bool untold;

static void take_lock(void)
{
	while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
		sched_yield();
}

static void drop_lock(void)
{
	atomic_flag_clear_explicit(&lock, memory_order_release);
}

static bool read_all(struct mapped_file *file, int fd)
{
	size_t at = 0;

	while (at < file->size) {
		ssize_t n = pread(fd, file->bytes + at, file->size - at, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (!n)
			file->truncated = true;
		if (!n)
			break;
		at += n;
	}
	return true;
}

/* Without a handler of SIGBUS, the file is read instead of mapped. If it ends too soon, zeros
 * follow. */
static bool fill(struct mapped_file *file, int fd)
{
	int flags = file->is_copy ? MAP_ANONYMOUS : 0;
	int access = file->is_copy ? PROT_READ | PROT_WRITE : PROT_READ;

	file->bytes = mmap(NULL, file->size, access, MAP_PRIVATE | flags, flags ? -1 : fd, 0);
	if (file->bytes == MAP_FAILED)
		return false;
	if (!file->is_copy || read_all(file, fd))
		return true;
	munmap(file->bytes, file->size);
	return false;
}

struct error *mapped_file_open(int fd, size_t size, const char *name, struct mapped_file **ret)
{
	_cleanup_free_ struct mapped_file *file = calloc(1, sizeof(*file) + strlen(name) + 1);

	if (!file)
		return &error_no_memory;
	strcpy(file->name, name);
	file->size = size;
	file->is_copy = !permitted(PERMIT_MAPPING);
	if (!fill(file, fd))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", name);
	if (!file->is_copy) {
		take_lock();
		file->next = files;
		files = file;
		drop_lock();
	}
	*ret = take_ptr(file);
	return NULL;
}

static void forget(struct mapped_file *file)
{
	struct mapped_file **at = &files;

	if (file->is_copy)
		return;
	take_lock();
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	drop_lock();
}

void mapped_file_close(struct mapped_file *file)
{
	if (!file)
		return;
	forget(file);
	if (file->truncated && !file->reported)
		untold = true;
	munmap(file->bytes, file->size);
	free(file);
}

const uint8_t *mapped_file_bytes(const struct mapped_file *file)
{
	return file->bytes;
}

struct error *mapped_file_check(struct mapped_file *file, struct error *err)
{
	if (!file || !file->truncated)
		return err;
	file->reported = true;
	error_destroy(err);
	return error_format(
		ERROR_CORRUPT,
		"%s was truncated while gospect read it; if a build is running, try again after it",
		file->name);
}

void mapped_file_probe(const struct mapped_file *file)
{
	if (file)
		(void)*(const volatile uint8_t *)(file->bytes + file->size - 1);
}

/* Replaces the rest of the file from the page of this address on; bytes that were read before stay.
 */
static bool repair_mapping(struct mapped_file *file, uintptr_t address)
{
	uintptr_t page = address - address % sysconf(_SC_PAGESIZE);
	uintptr_t end = (uintptr_t)file->bytes + file->size;

	if (mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return false;
	file->truncated = true;
	return true;
}

bool mapped_file_repair(const void *address)
{
	struct mapped_file *file;
	int saved = errno;
	bool repaired;

	take_lock();
	file = files;
	while (file && (uintptr_t)address - (uintptr_t)file->bytes >= file->size)
		file = file->next;
	repaired = file && repair_mapping(file, (uintptr_t)address);
	drop_lock();
	errno = saved;
	return repaired;
}

bool mapped_file_unreported(void)
{
	return untold;
}
