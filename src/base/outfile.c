#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "base/folder.h"

#define OWNER_ONLY 0600
/* Attempts to take a name, because other processes may take names or leave orphans meanwhile. */
#define TRIES_MOST 100
/* The largest number that a name gets. */
#define NUMBERS_MOST 10000

static struct error *cannot_write(const struct outfile *out, int err)
{
	const char *name = strcmp(out->path, "-") ? out->path : "standard output";

	if (err == ENOSPC || err == EDQUOT)
		return error_format(
			ERROR_FAILED,
			"cannot write %s: no space left on device; free some space or write to "
			"another disk",
			name);
	return error_errno(ERROR_FAILED, err, "cannot write %s", name);
}

static struct error *refused(const struct outfile *out, const char *why)
{
	return error_format(ERROR_FAILED, "cannot write %s: %s", out->path, why);
}

/*
 * Operations on names, relative to the directory, which was opened once.
 */

static int create(const struct outfile *out, const char *name)
{
	return openat(out->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      OWNER_ONLY);
}

/* A file without a name; -1 where there is no such thing. */
static int create_nameless(const struct outfile *out)
{
	return openat(out->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, OWNER_ONLY);
}

static bool name_is_of(const struct outfile *out, const char *name, int fd)
{
	struct stat named, open;

	return fstatat(out->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &open) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

static void reach_open_file(int fd, char path[static 32])
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

static int link_as(const struct outfile *out, const char *name, int fd)
{
	char from[32];

	reach_open_file(fd, from);
	return linkat(AT_FDCWD, from, out->folder, name, AT_SYMLINK_FOLLOW);
}

/* Makes a name that is not taken, and takes it: -1 and errno when that cannot be. */
static int take_name(struct outfile *out, int fd, int (*take)(struct outfile *out, int fd))
{
	int result = -1;

	errno = EEXIST;
	for (int i = 0; result < 0 && errno == EEXIST && i < TRIES_MOST; i++) {
		uint32_t number;

		free(take_ptr(out->temporary));
		if (getrandom(&number, sizeof(number), 0) != sizeof(number) ||
		    asprintf(&out->temporary, "%s.%08x", out->name, number) < 0) {
			out->temporary = NULL;
			return -1;
		}
		result = take(out, fd);
	}
	if (result < 0)
		free(take_ptr(out->temporary));
	return result;
}

/* Like rename(), but never replaces a file. Some file systems need two steps for it. */
static int rename_new(const struct outfile *out)
{
	int folder = out->folder;

	if (!renameat2(folder, out->temporary, folder, out->name, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (linkat(folder, out->temporary, folder, out->name, 0))
		return -1;
	unlinkat(folder, out->temporary, 0);
	return 0;
}

static int create_temporary(struct outfile *out, int fd)
{
	return create(out, out->temporary);
}

static int link_temporary(struct outfile *out, int fd)
{
	return link_as(out, out->temporary, fd);
}

/*
 * ---- existing files ----
 */

/* Writes to a device or a pipe in place: there is nothing to rename over. Opens the file that was
 * checked, even if its name has changed hands. */
static struct error *open_special(struct outfile *out, int seen, const struct stat *st)
{
	char path[32];
	int fd;

	if (!S_ISFIFO(st->st_mode) && !S_ISCHR(st->st_mode))
		return refused(out, "it is a socket or a block device; choose a regular file");
	reach_open_file(seen, path);
	fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return cannot_write(out, errno);
	out->stream = fdopen(fd, "w");
	return out->stream ? NULL : &error_no_memory;
}

static bool is_standard_output(const struct stat *st)
{
	struct stat ours;

	return fstat(STDOUT_FILENO, &ours) == 0 && ours.st_dev == st->st_dev &&
	       ours.st_ino == st->st_ino;
}

/* Opens a device or a pipe in place; else leaves the stream NULL. */
static struct error *open_in_place(struct outfile *out)
{
	_cleanup_close_ int seen = openat(out->folder, out->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool ours;

	if (seen < 0 || fstat(seen, &st))
		return NULL;
	ours = folder_entry_is_ours(out->folder, &st);
	if (S_ISLNK(st.st_mode)) {
		close(seen);
		seen = ours ? openat(out->folder, out->name, O_PATH | O_CLOEXEC) : -1;
		if (seen < 0 || fstat(seen, &st))
			return NULL;
		if (is_standard_output(&st))
			out->stream = stdout;
	}
	if (out->stream || S_ISREG(st.st_mode))
		return NULL;
	if (S_ISDIR(st.st_mode))
		return refused(out, "it is a directory; choose a file");
	if (!ours)
		return refused(
			out,
			"it is a pipe or a device of another user; remove it or choose another "
			"file");
	return open_special(out, seen, &st);
}

/*
 * ---- new files ----
 */

static struct error *set_stream(struct outfile *out, int fd)
{
	if (fd < 0)
		return cannot_write(out, errno);
	out->stream = fdopen(fd, "w");
	if (out->stream)
		return NULL;
	close(fd);
	return &error_no_memory;
}

static struct error *open_beside(struct outfile *out)
{
	int fd = create_nameless(out);

	return set_stream(out, fd < 0 ? take_name(out, -1, create_temporary) : fd);
}

static void close_folder(struct outfile *out)
{
	if (out->name)
		close(out->folder);
	out->name = NULL;
}

static struct error *is_there(const struct outfile *out)
{
	return refused(out, "it exists already; choose another file");
}

static struct error *check_absent(const struct outfile *out)
{
	struct stat st;

	if (out->number_at)
		return NULL;
	return fstatat(out->folder, out->name, &st, AT_SYMLINK_NOFOLLOW) ? NULL : is_there(out);
}

/* For a `path` that does not exist yet: the name of a file that is open. */
static struct error *open_as(const char *path, struct error *(*open_file)(struct outfile *),
			     const struct outfile *how, struct outfile *ret)
{
	_cleanup_outfile_ struct outfile out = *how;
	struct error *err = NULL;

	out.path = strdup(path);
	if (!out.path)
		return &error_no_memory;
	if (!strcmp(path, "-"))
		out.stream = stdout;
	else
		err = folder_open(out.path, &out.folder, &out.name);
	if (!err && out.name && !*out.name)
		err = refused(&out, "it is a directory; choose a file");
	if (!err && out.name)
		err = out.is_new ? check_absent(&out) : open_in_place(&out);
	if (!err && out.name && out.stream)
		close_folder(&out);
	if (!err && !out.stream)
		err = open_file(&out);
	if (err)
		return err;
	*ret = out;
	out = (struct outfile){0};
	return NULL;
}

static struct error *open_with(const char *path, struct error *(*open_file)(struct outfile *),
			       bool is_new, struct outfile *ret)
{
	return open_as(path, open_file, &(struct outfile){.is_new = is_new}, ret);
}

static struct error *ask_to_open(const char *path, size_t number_at, struct outfile *ret);

struct error *outfile_open(const char *path, struct outfile *ret)
{
	if (door_is_brokered() && strcmp(path, "-"))
		return ask_to_open(path, 0, ret);
	return open_with(path, open_beside, false, ret);
}

static bool ends_in(const char *name, const char *ending)
{
	size_t length = strlen(name), n = strlen(ending);

	return length > n && !strcmp(name + length - n, ending);
}

static bool is_folder_of(const char *folder, const char *path, size_t length)
{
	size_t n = strlen(folder);

	/* As "/tmp/": all but its last slash. */
	return n ? length == n + 1 && !strncmp(folder, path, n) : !length;
}

static struct error *check_rule(const struct outfile_rule *rule, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	bool is_folder = false, is_name = false;

	for (const char *const *f = rule->folders; f && *f; f++)
		is_folder |= is_folder_of(*f, path, name - path);
	for (const char *const *e = rule->endings; e && *e; e++)
		is_name |= *name != '.' && ends_in(name, *e);
	if (!is_folder)
		return error_format(
			ERROR_FAILED,
			"cannot write %s: top creates files in the current directory, in /tmp or "
			"next to the file of -o only; choose one of these",
			path);
	return is_name ? NULL
		       : error_format(ERROR_FAILED,
				      "cannot write %s: the file name has no known extension; use "
				      ".pb.gz, .pprof, .folded, .firefox.json, .json or .html",
				      path);
}

struct error *outfile_open_new(const char *path, const struct outfile_rule *rule,
			       struct outfile *ret)
{
	struct error *err = check_rule(rule, path);

	if (err)
		return err;
	return door_is_brokered() ? ask_to_open(path, 0, ret)
				  : open_with(path, open_beside, true, ret);
}

struct error *outfile_open_numbered(const char *before, const char *after, struct outfile *ret)
{
	const struct outfile how = {.is_new = true, .number_at = strlen(before)};
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s%s", before, after) < 0) {
		path = NULL;
		return &error_no_memory;
	}
	return door_is_brokered() ? ask_to_open(path, how.number_at, ret)
				  : open_as(path, open_beside, &how, ret);
}

/*
 * PATH.partial, locked as long as it is written.
 */

static struct error *is_taken(const struct outfile *out)
{
	return refused(out, "another gospect is writing it; choose another file");
}

static struct error *lock_orphan(const struct outfile *out, const char *name, int fd)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		return error_format(
			ERROR_FAILED,
			"cannot write %s: %s exists and belongs to another user; remove it or "
			"choose another file",
			out->path, name);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return NULL;
	if (errno == EWOULDBLOCK)
		return is_taken(out);
	return error_format(
		ERROR_FAILED,
		"cannot write %s: %s exists, and the file system has no file locks to tell "
		"whether another gospect is writing it; remove it or choose another file",
		out->path, name);
}

/* Removes the file that a killed gospect left. A new file takes its place: a user who could read
 * the old one may still have it open. */
static struct error *remove_orphan(const struct outfile *out, const char *name)
{
	_cleanup_close_ int fd =
		openat(out->folder, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct error *err = NULL;

	if (fd < 0 && errno == ENOENT)
		return NULL;
	err = lock_orphan(out, name, fd);
	if (!err && name_is_of(out, name, fd) && unlinkat(out->folder, name, 0))
		err = cannot_write(out, errno);
	return err;
}

/* Locks a new file; *ret_ours is false when another gospect took it for an orphan and removed it.
 */
static struct error *lock_new(const struct outfile *out, const char *name, int fd, bool *ret_ours)
{
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return is_taken(out);
	*ret_ours = name_is_of(out, name, fd);
	return NULL;
}

static struct error *create_partial(struct outfile *out, const char *name)
{
	struct error *err = NULL;

	for (int i = 0; !err && i < TRIES_MOST; i++) {
		int fd = create(out, name);
		bool ours = false;

		if (fd < 0 && errno != EEXIST)
			return cannot_write(out, errno);
		err = fd < 0 ? remove_orphan(out, name) : lock_new(out, name, fd, &ours);
		if (ours)
			return set_stream(out, fd);
		if (fd >= 0)
			close(fd);
	}
	return err ? err : is_taken(out);
}

static struct error *open_partial(struct outfile *out)
{
	_cleanup_free_ char *name = NULL;
	struct error *err;

	if (asprintf(&name, "%s.partial", out->name) < 0) {
		name = NULL;
		return &error_no_memory;
	}
	err = create_partial(out, name);
	if (!err)
		out->temporary = take_ptr(name);
	return err;
}

struct error *outfile_open_growing(const char *path, struct outfile *ret)
{
	return open_with(path, open_partial, false, ret);
}

/*
 * ---- files without a name ----
 */

static int create_beside(const char *path)
{
	struct outfile out = {0};
	int fd;

	if (!strcmp(path, "-") || error_dropped(folder_open(path, &out.folder, &out.name)))
		return -1;
	fd = create_nameless(&out);
	close(out.folder);
	return fd;
}

/* Bytes that are free where the file is; 0 when that is memory. */
static uint64_t free_beside(int fd)
{
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return 0;
	return fs.f_bavail * (uint64_t)fs.f_bsize;
}

int outfile_open_scratch(const char *path, uint64_t *ret_free)
{
	int fd = create_beside(path);
	const char *folder;

	*ret_free = free_beside(fd);
	if (*ret_free)
		return fd;
	if (fd >= 0)
		close(fd);
	fd = door_temporary(&folder);
	*ret_free = free_beside(fd);
	if (!*ret_free && fd >= 0)
		close(fd);
	return *ret_free ? fd : -1;
}

/*
 * The name in the end.
 */

/* Writes the nameless file again, to one that has a name. */
static struct error *copy_to_temporary(struct outfile *out, int fd)
{
	_cleanup_close_ int to = take_name(out, -1, create_temporary);
	char bytes[1 << 16];
	ssize_t n = 0;
	off_t at = 0;

	if (to < 0)
		return cannot_write(out, errno);
	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		n = write(to, bytes, n);
		if (n < 0)
			break;
		at += n;
	}
	return n < 0 ? cannot_write(out, errno) : NULL;
}

/* Gives a nameless file a name beside its own: a link cannot replace a file that is there. Some
 * file systems and security modules have no links. */
static struct error *give_name(struct outfile *out, int fd)
{
	return take_name(out, fd, link_temporary) ? copy_to_temporary(out, fd) : NULL;
}

/* A complete file is never removed because a rename failed. */
static struct error *cannot_rename(struct outfile *out, int err)
{
	_cleanup_free_ char *left = take_ptr(out->temporary);

	return error_format(ERROR_FAILED,
			    "cannot rename %.*s%s to %s: %s; the temporary file is complete",
			    (int)(out->name - out->path), out->path, left, out->path,
			    strerror(err));
}

static struct error *replace(struct outfile *out)
{
	if (out->is_new ? rename_new(out)
			: renameat(out->folder, out->temporary, out->folder, out->name))
		return cannot_rename(out, errno);
	free(take_ptr(out->temporary));
	return NULL;
}

/* Sets the name to BEFORE-NUMBERAFTER: `out->path` up to `number_at` is BEFORE. */
static struct error *set_number(struct outfile *out, const char *after, unsigned int number)
{
	size_t name_at = out->name - out->path;
	char *path;

	if (asprintf(&path, "%.*s-%u%s", (int)out->number_at, out->path, number, after) < 0)
		return &error_no_memory;
	free(out->path);
	out->path = path;
	out->name = path + name_at;
	return NULL;
}

/* The first name that is free. It is taken in one step, so two that do this get one each. */
static struct error *publish_numbered(struct outfile *out, int fd)
{
	_cleanup_free_ char *after = strdup(out->path + out->number_at);
	struct error *err = after ? NULL : &error_no_memory;
	unsigned int number = 1;

	while (!err && (out->temporary ? rename_new(out) : link_as(out, out->name, fd))) {
		if (errno == EEXIST && number < NUMBERS_MOST)
			err = set_number(out, after, ++number);
		else if (out->temporary)
			err = cannot_rename(out, errno);
		else
			err = give_name(out, fd);
	}
	if (!err)
		free(take_ptr(out->temporary));
	return err;
}

static struct error *publish(struct outfile *out, int fd)
{
	struct error *err = NULL;

	if (out->number_at)
		return publish_numbered(out, fd);
	if (out->is_new && !out->temporary && !link_as(out, out->name, fd))
		return NULL;
	if (out->is_new && !out->temporary && errno == EEXIST)
		return is_there(out);
	if (!out->temporary)
		err = give_name(out, fd);

	return err ? err : replace(out);
}

/* A process without the privilege to name files asks the broker, which has this outfile too. */

enum { CALL_PUBLISH, CALL_ABANDON, CALL_OPEN, CALL_OPEN_NUMBERED };

/* Puts an opcode and the path into the call. For a numbered file, the place of its number comes
 * between them. */
static bool put_path(struct door_call *call, const char *path, size_t number_at)
{
	uint16_t at = number_at;
	size_t head = number_at ? 1 + sizeof(at) : 1;

	call->size = head + strlen(path) + 1;
	if (call->size > sizeof(call->bytes))
		return false;
	call->bytes[0] = number_at ? CALL_OPEN_NUMBERED : CALL_OPEN;
	if (number_at)
		memcpy(call->bytes + 1, &at, sizeof(at));
	memcpy(call->bytes + head, path, strlen(path) + 1);
	return true;
}

/* The broker opens the file if its policy allows the name. */
static struct error *ask_to_open(const char *path, size_t number_at, struct outfile *ret)
{
	struct outfile out = {.path = strdup(path), .folder = -1, .number_at = number_at};
	struct door_call call = {0};
	struct error *err = NULL;

	if (!put_path(&call, path, number_at)) {
		free(out.path);
		return error_format(
			ERROR_FAILED,
			"the name of the output file is too long; choose a shorter one");
	}
	if (out.path)
		err = door_call(DOOR_OUTFILE, &call);
	if (out.path && !err && call.fd_count == 1)
		out.stream = fdopen(call.fds[0], "w");
	if (!out.stream) {
		free(out.path);
		return err ? err : &error_no_memory;
	}
	out.name = out.path;
	*ret = out;
	return NULL;
}

static struct error *ask_to_publish(struct outfile *out, int fd)
{
	struct door_call call = {.bytes = {CALL_PUBLISH}, .size = 1, .fds = {fd}, .fd_count = 1};
	struct error *err = door_call(DOOR_OUTFILE, &call);
	bool is_named = !err && out->number_at && call.size > 1 && !call.bytes[call.size - 1];

	free(take_ptr(out->temporary));
	if (!is_named)
		return err;
	free(out->path);
	out->path = strdup((const char *)call.bytes);
	out->name = out->path;
	return out->path ? NULL : &error_no_memory;
}

static void ask_to_abandon(struct outfile *out)
{
	struct door_call call = {.bytes = {CALL_ABANDON}, .size = 1};

	error_destroy(door_call(DOOR_OUTFILE, &call));
}

static struct error *answer_open(struct outfile_service *s, struct door_call *call)
{
	call->size = 0;
	call->fds[0] = fcntl(fileno(s->again.stream), F_DUPFD_CLOEXEC, 3);
	call->fd_count = call->fds[0] >= 0;
	return NULL;
}

static struct error *serve_open(struct outfile_service *s, struct door_call *call)
{
	const char *path = (const char *)call->bytes + 1;
	struct error *err;

	if (call->size < 2 || call->bytes[call->size - 1])
		return error_format(ERROR_FAILED,
				    "cannot open the output file: its name is invalid");
	if ((!s->path || strcmp(path, s->path)) && !s->names.folders)
		return error_format(ERROR_FAILED,
				    "cannot open this file: it is not the output file");
	outfile_abandon(&s->again);
	s->out = &s->again;
	if (s->path && !strcmp(path, s->path))
		err = outfile_open(path, &s->again);
	else
		err = outfile_open_new(path, &s->names, &s->again);
	return err ? err : answer_open(s, call);
}

/* Whether the path begins with the family's name and has no further folder behind it. */
static bool is_of_family(const char *family, const char *path, size_t number_at)
{
	size_t n = family ? strlen(family) : 0;

	return n && number_at >= n && number_at <= strlen(path) && !strncmp(path, family, n) &&
	       !strchr(path + n, '/');
}

static struct error *serve_open_numbered(struct outfile_service *s, struct door_call *call)
{
	struct outfile how = {.is_new = true};
	const char *path;
	uint16_t at;
	struct error *err;

	if (call->size < sizeof(at) + 2 || call->bytes[call->size - 1])
		return error_format(ERROR_FAILED,
				    "cannot open the output file: its name is invalid");
	path = (const char *)call->bytes + 1 + sizeof(at);
	memcpy(&at, call->bytes + 1, sizeof(at));
	if (!is_of_family(s->family, path, at))
		return error_format(ERROR_FAILED,
				    "cannot open this file: it is not the output file");
	how.number_at = at;
	outfile_abandon(&s->again);
	s->out = &s->again;
	err = open_as(path, open_beside, &how, &s->again);
	return err ? err : answer_open(s, call);
}

/* The service renames only the file that it opened itself. */
static bool is_own(const struct outfile_service *s, int fd)
{
	struct stat opened, sent;

	if (s->out != &s->again)
		return true;
	return s->again.stream && !fstat(fileno(s->again.stream), &opened) && !fstat(fd, &sent) &&
	       opened.st_dev == sent.st_dev && opened.st_ino == sent.st_ino;
}

/* Answers with the name of a file that may have got a number. */
static struct error *serve_publish(struct outfile_service *s, struct door_call *call)
{
	struct outfile *out = s->out;
	struct error *err;
	size_t size;

	if (!is_own(s, call->fds[0]))
		return error_format(ERROR_FAILED,
				    "cannot publish the output file: another file was passed");
	err = publish(out, call->fds[0]);
	if (!err && out->number_at)
		err = kept_files_add(&s->kept, out->path);
	size = strlen(out->path) + 1;
	if (err || !out->number_at || size > sizeof(call->bytes))
		return err;
	memcpy(call->bytes, out->path, size);
	call->size = size;
	return NULL;
}

struct error *outfile_serve(void *arg, struct door_call *call)
{
	struct outfile_service *s = arg;
	struct outfile *out = s->out;
	uint8_t what = call->size ? call->bytes[0] : CALL_PUBLISH;
	struct error *err = NULL;

	if (what == CALL_OPEN) {
		door_call_drop(call);
		return serve_open(s, call);
	}
	if (what == CALL_OPEN_NUMBERED) {
		door_call_drop(call);
		return serve_open_numbered(s, call);
	}
	if (what == CALL_PUBLISH && call->fd_count == 1 && out && out->name)
		err = serve_publish(s, call);
	else if (what == CALL_ABANDON && out == &s->again)
		outfile_abandon(out);
	else if (what == CALL_ABANDON && out && out->temporary)
		unlinkat(out->folder, out->temporary, 0);
	door_call_drop(call);
	return err;
}

void outfile_write(struct outfile *out, const void *bytes, size_t size)
{
	if (fwrite(bytes, 1, size, out->stream) != size && !out->failed)
		out->failed = errno;
}

struct error *outfile_commit(struct outfile *out)
{
	struct error *err = NULL;

	if (ferror(out->stream) | fflush(out->stream))
		err = cannot_write(out, out->failed ? out->failed : errno);
	if (!err && out->name)
		err = door_is_brokered() ? ask_to_publish(out, fileno(out->stream))
					 : publish(out, fileno(out->stream));
	if (out->stream != stdout && fclose(out->stream) && !err)
		err = cannot_write(out, errno);
	out->stream = NULL;
	return err;
}

void outfile_abandon(struct outfile *out)
{
	/* The caller that opened it knows whether it has another name. */
	if (out->stream && out->name && door_is_brokered())
		ask_to_abandon(out);
	else if (out->temporary)
		unlinkat(out->folder, out->temporary, 0);
	if (out->stream && out->stream != stdout)
		fclose(out->stream);
	close_folder(out);
	free(out->temporary);
	free(out->path);
	*out = (struct outfile){0};
}
