#include "push/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* "TIME-RANDOM.push": 16 and 32 hexadecimal digits. */
#define TIME_DIGITS 16
#define RANDOM_DIGITS 32
#define ENDING ".push"
#define PARTIAL_ENDING ".part"

/* At the beginning of a file. */
struct head {
	char magic[8];
	uint32_t size; /* of what follows */
	uint32_t crc;
};
#define MAGIC "gospush1"

/* ---- the folder ---- */

static struct error *must_check check_owner(int folder, const char *path)
{
	struct stat st;

	if (fstat(folder, &st))
		return error_errno(ERROR_FAILED, errno, "cannot read the spool %s", path);
	if (st.st_uid != geteuid())
		return error_format(ERROR_FAILED,
				    "the spool %s belongs to another user; use --spool DIR", path);
	if (st.st_mode & 077 && fchmod(folder, 0700))
		return error_errno(ERROR_FAILED, errno, "cannot make the spool %s private", path);
	return NULL;
}

/* The lock ends with the process. */
static struct error *must_check lock(int folder, const char *path)
{
	if (!flock(folder, LOCK_EX | LOCK_NB))
		return NULL;
	if (errno == EWOULDBLOCK)
		return error_format(ERROR_FAILED,
				    "another gospect push uses the spool %s; use --spool DIR",
				    path);
	return error_errno(ERROR_FAILED, errno, "cannot lock the spool %s", path);
}

static bool are_hex(const char *text, size_t count)
{
	return strspn(text, "0123456789abcdef") >= count;
}

static bool is_name(const char *name)
{
	const char *random = name + TIME_DIGITS + 1, *ending = random + RANDOM_DIGITS;

	return strlen(name) == TIME_DIGITS + 1 + RANDOM_DIGITS + strlen(ENDING) &&
	       are_hex(name, TIME_DIGITS) && random[-1] == '-' && are_hex(random, RANDOM_DIGITS) &&
	       (!strcmp(ending, ENDING) || !strcmp(ending, PARTIAL_ENDING));
}

static bool is_partial(const char *name)
{
	return !strcmp(name + strlen(name) - strlen(PARTIAL_ENDING), PARTIAL_ENDING);
}

static struct error *must_check add_file(struct spool *s, const char *name, uint64_t size)
{
	struct spool_file *file;

	if (!array_reserve(&s->files, &s->capacity, s->count + 1))
		return &error_no_memory;
	file = &s->files[s->count++];
	snprintf(file->name, sizeof(file->name), "%s", name);
	file->size = size;
	file->serial = ++s->last_serial;
	s->bytes += size;
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct spool_file *)a)->name, ((const struct spool_file *)b)->name);
}

/* What the last gospect left. */
static struct error *must_check find_files(struct spool *s)
{
	int copy = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *folder = copy < 0 ? NULL : fdopendir(copy);
	struct error *err = NULL;
	struct dirent *entry;
	struct stat st;

	if (!folder)
		return error_errno(ERROR_FAILED, errno, "cannot read the spool %s", s->path);
	while (!err && (entry = readdir(folder))) {
		if (!is_name(entry->d_name) ||
		    fstatat(s->folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode) || st.st_uid != geteuid())
			continue;
		if (is_partial(entry->d_name))
			unlinkat(s->folder, entry->d_name, 0);
		else
			err = add_file(s, entry->d_name, st.st_size);
	}
	if (s->count)
		qsort(s->files, s->count, sizeof(*s->files), by_name);
	return err;
}

static void remove_first(struct spool *s)
{
	struct spool_file *file = &s->files[s->first];

	unlinkat(s->folder, file->name, 0);
	s->bytes -= file->size;
	if (++s->first < s->count && s->first < s->count / 2 + 1)
		return;
	memmove(s->files, s->files + s->first, (s->count - s->first) * sizeof(*s->files));
	s->count -= s->first;
	s->first = 0;
}

static void drop_first(struct spool *s)
{
	remove_first(s);
	s->dropped++;
}

static void make_room(struct spool *s, uint64_t size)
{
	while (s->first < s->count && s->bytes + size > s->most_bytes)
		drop_first(s);
}

/* The folder around it: another user could exchange what is in theirs. */
static struct error *must_check open_outer(const char *path, int *ret)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return error_errno(ERROR_FAILED, errno, "cannot create the spool %s", path);
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret < 0 || fstat(*ret, &st))
		return error_errno(ERROR_FAILED, errno, "cannot open the spool %s", path);
	if (st.st_uid != geteuid() || st.st_mode & 022)
		return error_format(
			ERROR_FAILED,
			"other users can write to the folder %s; use --spool DIR with a folder of your own",
			path);
	return NULL;
}

static struct error *must_check open_folder(const char *outer, const char *kind, struct spool *s)
{
	_cleanup_close_ int around = -1;
	struct error *err = open_outer(outer, &around);

	if (err)
		return err;
	if (mkdirat(around, kind, 0700) && errno != EEXIST)
		return error_errno(ERROR_FAILED, errno, "cannot create the spool %s", s->path);
	s->folder = openat(around, kind, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (s->folder < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open the spool %s", s->path);
	err = check_owner(s->folder, s->path);
	return err ? err : lock(s->folder, s->path);
}

struct error *spool_open(const char *path, const char *kind, uint64_t most_bytes, struct spool *ret)
{
	struct error *err;

	*ret = (struct spool){.folder = -1, .most_bytes = most_bytes};
	if (asprintf(&ret->path, "%s/%s", path, kind) < 0) {
		ret->path = NULL;
		return &error_no_memory;
	}
	err = open_folder(path, kind, ret);
	if (!err)
		err = find_files(ret);
	if (!err)
		make_room(ret, 0);
	return err;
}

void spool_close(struct spool *s)
{
	if (s->folder >= 0)
		close(s->folder);
	free(s->path);
	free(s->files);
	*s = (struct spool){.folder = -1};
}

/* ---- adding ---- */

static bool new_name(char ret[SPOOL_NAME], const char *ending)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return false;
	snprintf(ret, SPOOL_NAME, "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64 "%s",
		 clock_read(CLOCK_REALTIME), random[0], random[1], ending);
	return true;
}

static int write_all(int fd, const struct head *head, const void *bytes, size_t size)
{
	const struct iovec pieces[] = {{(void *)head, sizeof(*head)}, {(void *)bytes, size}};
	size_t all = sizeof(*head) + size, written = 0;
	ssize_t n = writev(fd, pieces, 2);

	written = n > 0 ? n : 0;
	while (n > 0 && written < all) {
		if (written < sizeof(*head))
			return EIO;
		n = write(fd, (const char *)bytes + written - sizeof(*head), all - written);
		written += n > 0 ? n : 0;
	}
	return written == all ? 0 : n < 0 ? errno : ENOSPC;
}

/* Writes it under a name that nobody looks for, and then renames it: it appears whole. */
static int write_file(struct spool *s, const char *name, const void *bytes, size_t size)
{
	struct head head = {.size = size, .crc = crc32(0, bytes, size)};
	char partial[SPOOL_NAME];
	int fd, failed;

	memcpy(head.magic, MAGIC, sizeof(head.magic));
	snprintf(partial, sizeof(partial), "%.*s%s", TIME_DIGITS + 1 + RANDOM_DIGITS, name,
		 PARTIAL_ENDING);
	fd = openat(s->folder, partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno;
	failed = write_all(fd, &head, bytes, size);
	if (close(fd) && !failed)
		failed = errno;
	if (!failed && renameat(s->folder, partial, s->folder, name))
		failed = errno;
	if (failed)
		unlinkat(s->folder, partial, 0);
	return failed;
}

static bool is_full(int failed)
{
	return failed == ENOSPC || failed == EDQUOT || failed == EFBIG;
}

bool spool_add(struct spool *s, const void *bytes, size_t size)
{
	uint64_t all = size + sizeof(struct head);
	char name[SPOOL_NAME];

	s->failed = EFBIG;
	if (all <= s->most_bytes && size <= UINT32_MAX && new_name(name, ENDING)) {
		make_room(s, all);
		s->failed = write_file(s, name, bytes, size);
		/* The disk is full: older ones make room. */
		while (is_full(s->failed) && s->first < s->count) {
			drop_first(s);
			s->failed = write_file(s, name, bytes, size);
		}
	}
	if (!s->failed && error_dropped(add_file(s, name, all))) {
		unlinkat(s->folder, name, 0);
		s->failed = ENOMEM;
	}
	s->dropped += s->failed != 0;
	return !s->failed;
}

/* ---- sending ---- */

size_t spool_count(const struct spool *s)
{
	return s->count - s->first;
}

const struct spool_file *spool_oldest(const struct spool *s)
{
	return s->first < s->count ? &s->files[s->first] : NULL;
}

static bool is_whole(int fd, uint64_t size, size_t *ret_size)
{
	struct head head;
	uint8_t piece[16 << 10];
	uint32_t crc = 0;
	ssize_t n = read(fd, &head, sizeof(head));

	if (n != sizeof(head) || memcmp(head.magic, MAGIC, sizeof(head.magic)) ||
	    size != sizeof(head) + (uint64_t)head.size)
		return false;
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		crc = crc32(crc, piece, n);
	*ret_size = head.size;
	return crc == head.crc && lseek(fd, sizeof(head), SEEK_SET) == sizeof(head);
}

int spool_open_oldest(struct spool *s, size_t *ret_size)
{
	const struct spool_file *file = spool_oldest(s);
	int fd = openat(s->folder, file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && is_whole(fd, st.st_size, ret_size))
		return fd;
	if (fd >= 0)
		close(fd);
	drop_first(s);
	return -1;
}

void spool_remove(struct spool *s, uint64_t serial)
{
	const struct spool_file *oldest = spool_oldest(s);

	if (oldest && oldest->serial == serial)
		remove_first(s);
}
