/*
 * Files that provide symbols where there is no process: programs, their unstripped builds, separate
 * debug files. Build ids identify them.
 */
#ifndef IMAGE_DEBUG_FILES_H
#define IMAGE_DEBUG_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct debug_file {
	char *path;
	char *build_id; /* as elf_file_build_id() has it; "" when it has none */
	char *go_build_id;
};

struct debug_files {
	struct debug_file *items; /* in the order of being added */
	size_t count;
	size_t capacity;
	char **folders;
	size_t folder_count;
	size_t folder_capacity;
};

/* Adds a file that the user named. It is an error if the file cannot have symbols. */
struct error *debug_files_add(struct debug_files *files, const char *path) must_check;
/*
 * A directory: all ELF files in it, and those by build id, as DIRECTORY/.build-id/ab/cdef.debug
 * and, for whole programs, DIRECTORY/.build-id/ab/cdef.
 */
struct error *debug_files_add_folder(struct debug_files *files, const char *path) must_check;
/* Looks into the folders for this build id. */
struct error *debug_files_look_up(struct debug_files *files, const char *build_id) must_check;
/* Whether the file has this build id, or, with "", none at all. */
bool debug_file_is(const struct debug_file *file, const char *build_id);
void debug_files_release(struct debug_files *files);
#define _cleanup_debug_files_ __attribute__((cleanup(debug_files_release)))

/* The vDSO of the running kernel, as a file; -1 when there is none. */
int debug_file_own_vdso(void);

#endif
