#include "image/debug_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "base/regular_file.h"
#include "image/elf_file.h"

#define MAX_VDSO (1u << 20)

static struct error *append(struct debug_files *files, const char *path, const struct elf_file *elf)
{
	struct debug_file *file;

	if (!array_reserve(&files->items, &files->capacity, files->count + 1))
		return &error_no_memory;
	file = &files->items[files->count++];
	file->path = strdup(path);
	file->build_id = strdup(elf_file_build_id(elf));
	file->go_build_id = strdup(elf_file_go_build_id(elf));
	return file->path && file->build_id && file->go_build_id ? NULL : &error_no_memory;
}

bool debug_file_is(const struct debug_file *file, const char *build_id)
{
	return !strcmp(file->build_id, build_id) ||
	       (*build_id && !strcmp(file->go_build_id, build_id));
}

/* Never blocks: a file in a directory may be a pipe. */
static struct error *open_elf(const char *path, struct elf_file **ret)
{
	int fd = regular_file_open(path);

	if (fd < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", path);
	return elf_file_open(fd, path, ret);
}

struct error *debug_files_add(struct debug_files *files, const char *path)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	struct error *err = open_elf(path, &elf);

	return err ? err : append(files, path, elf);
}

/* Tries a file of a directory; one without a build id, or that is no ELF file, is skipped. */
static struct error *try_file(struct debug_files *files, const char *path, const char *wanted)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || error_dropped(open_elf(path, &elf)))
		return NULL;
	if (!elf_file_build_id(elf)[0] || (wanted && !elf_file_has_build_id(elf, wanted)))
		return NULL;
	return append(files, path, elf);
}

static struct error *try_entries(struct debug_files *files, DIR *folder, const char *path)
{
	struct error *err = NULL;
	struct dirent *entry;

	while (!err && (entry = readdir(folder))) {
		_cleanup_free_ char *name = NULL;

		if (asprintf(&name, "%s/%s", path, entry->d_name) < 0)
			return &error_no_memory;
		err = try_file(files, name, NULL);
	}
	return err;
}

struct error *debug_files_add_folder(struct debug_files *files, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	DIR *folder = door_opendir(path);
	struct error *err;

	if (!folder)
		return error_errno(ERROR_FAILED, errno, "cannot read the directory %s", path);
	err = try_entries(files, folder, path);
	closedir(folder);
	if (err)
		return err;
	if (!copy ||
	    !array_reserve(&files->folders, &files->folder_capacity, files->folder_count + 1))
		return &error_no_memory;
	files->folders[files->folder_count++] = take_ptr(copy);
	return NULL;
}

/* A GNU build id: it becomes a part of a path, and comes from a file that may be hostile. */
static bool is_hexadecimal(const char *id)
{
	return strlen(id) > 2 && strspn(id, "0123456789abcdef") == strlen(id);
}

struct error *debug_files_look_up(struct debug_files *files, const char *build_id)
{
	static const char *const suffixes[] = {"", ".debug"};
	struct error *err = NULL;

	if (!is_hexadecimal(build_id))
		return NULL;
	for (size_t i = 0; !err && i < files->folder_count * ARRAY_SIZE(suffixes); i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/.build-id/%.2s/%s%s",
			     files->folders[i / ARRAY_SIZE(suffixes)], build_id, build_id + 2,
			     suffixes[i % ARRAY_SIZE(suffixes)]) < 0)
			return &error_no_memory;
		err = try_file(files, path, build_id);
	}
	return err;
}

void debug_files_release(struct debug_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->items[i].path);
		free(files->items[i].build_id);
		free(files->items[i].go_build_id);
	}
	for (size_t i = 0; i < files->folder_count; i++)
		free(files->folders[i]);
	free(files->items);
	free(files->folders);
	*files = (struct debug_files){0};
}

int debug_file_own_vdso(void)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
	size_t size;
	int fd;

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG))
		return -1;
	/* Its section headers come last. */
	size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	fd = size > MAX_VDSO ? -1 : memfd_create("vdso", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, header, size) == (ssize_t)size)
		return fd;
	cleanup_close(&fd);
	return -1;
}
