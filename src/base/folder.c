#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/cleanup.h"

/* As MAXSYMLINKS of the kernel (include/linux/namei.h). */
#define LINKS_MOST 40

struct walk {
	const char *path;
	char *text;     /* the path, or the text of a link and the rest of the path behind it */
	const char *at; /* the rest in `text`, relative to `folder` */
	int folder;
	int links;
};

static struct error *cannot_enter(const struct walk *w, int err)
{
	if (err == ENOENT)
		return error_format(
			ERROR_FAILED,
			"cannot write %s: its directory does not exist; create it first", w->path);
	return error_errno(ERROR_FAILED, err, "cannot write %s", w->path);
}

static bool is_ours(uid_t owner)
{
	return !owner || owner == geteuid();
}

bool folder_entry_is_ours(int folder, const struct stat *entry)
{
	struct stat st;

	if (fstat(folder, &st))
		return false;
	if (is_ours(st.st_uid) && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return true;
	return is_ours(entry->st_uid) && entry->st_nlink == 1;
}

static struct error *enter(struct walk *w, int folder)
{
	if (folder < 0)
		return cannot_enter(w, errno);
	close(w->folder);
	w->folder = folder;
	return NULL;
}

static struct error *enter_root(struct walk *w)
{
	return enter(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* The kernel follows links in /proc: their text is not a path. */
static bool is_proc(int folder)
{
	struct statfs fs;

	return fstatfs(folder, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Continues with the text of the link, and then with the rest of the path. */
static struct error *follow(struct walk *w, int link)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
	char *joined;

	if (n < 0)
		return cannot_enter(w, errno);
	target[n] = '\0';
	if (++w->links > LINKS_MOST)
		return cannot_enter(w, ELOOP);
	if (asprintf(&joined, "%s/%s", target, w->at) < 0)
		return &error_no_memory;
	free(w->text);
	w->at = w->text = joined;
	return *joined == '/' ? enter_root(w) : NULL;
}

static struct error *enter_link(struct walk *w, int link, const struct stat *st, const char *name)
{
	if (!folder_entry_is_ours(w->folder, st))
		return error_format(
			ERROR_FAILED,
			"cannot write %s: '%s' is a symbolic link that another user can change; "
			"use the path that it points to",
			w->path, name);
	if (is_proc(w->folder))
		return enter(w, openat(w->folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
	return follow(w, link);
}

static struct error *enter_component(struct walk *w, const char *name)
{
	int entry = openat(w->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct error *err;
	struct stat st;

	if (entry < 0)
		return cannot_enter(w, errno);
	if (fstat(entry, &st) == 0 && !S_ISLNK(st.st_mode))
		return enter(w, entry);
	err = enter_link(w, entry, &st, name);
	close(entry);
	return err;
}

static struct error *walk_all(struct walk *w)
{
	struct error *err = *w->path == '/' ? enter_root(w) : NULL;

	while (!err && *(w->at += strspn(w->at, "/"))) {
		size_t length = strcspn(w->at, "/");
		_cleanup_free_ char *name = strndup(w->at, length);

		if (!name)
			return &error_no_memory;
		w->at += length;
		err = enter_component(w, name);
	}
	return err;
}

struct error *folder_open(const char *path, int *ret_folder, const char **ret_name)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct walk w = {.path = path, .text = strndup(path, name - path), .folder = -1};
	struct error *err;

	if (!w.text)
		return &error_no_memory;
	w.at = w.text;
	w.folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = w.folder < 0 ? cannot_enter(&w, errno) : walk_all(&w);
	free(w.text);
	if (err) {
		if (w.folder >= 0)
			close(w.folder);
		return err;
	}
	*ret_folder = w.folder;
	*ret_name = name;
	return NULL;
}
