#include "base/mapped_file.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

struct mapped_file {
	struct mapped_file *next;
	uint8_t *bytes;
	size_t size;
	_Atomic bool truncated;
	bool told; /* by mapped_file_check() */
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

struct error *mapped_file_open(int fd, size_t size, const char *name, struct mapped_file **ret)
{
	_cleanup_free_ struct mapped_file *file = calloc(1, sizeof(*file) + strlen(name) + 1);
	void *bytes;

	if (!file)
		return &error_no_memory;
	strcpy(file->name, name);
	bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return error_errno(ERROR_FAILED, errno, "cannot read %s", name);
	file->bytes = bytes;
	file->size = size;
	take_lock();
	file->next = files;
	files = file;
	drop_lock();
	*ret = take_ptr(file);
	return NULL;
}

static void forget(struct mapped_file *file)
{
	struct mapped_file **at = &files;

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
	if (file->truncated && !file->told)
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
	file->told = true;
	error_destroy(err);
	return error_format(ERROR_CORRUPT,
			    "%s was truncated while it was read; is it being rebuilt? Try again",
			    file->name);
}

/* The rest of the file from the page of this address on: what was read before stays. */
static bool mend(struct mapped_file *file, uintptr_t address)
{
	uintptr_t page = address - address % sysconf(_SC_PAGESIZE);
	uintptr_t end = (uintptr_t)file->bytes + file->size;

	if (mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return false;
	file->truncated = true;
	return true;
}

bool mapped_file_mend(const void *address)
{
	struct mapped_file *file;
	int saved = errno;
	bool mended;

	take_lock();
	file = files;
	while (file && (uintptr_t)address - (uintptr_t)file->bytes >= file->size)
		file = file->next;
	mended = file && mend(file, (uintptr_t)address);
	drop_lock();
	errno = saved;
	return mended;
}

bool mapped_file_untold(void)
{
	return untold;
}
