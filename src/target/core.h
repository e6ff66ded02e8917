/* The internals of a core file as a target: for the files of this room alone. */
#ifndef TARGET_CORE_H
#define TARGET_CORE_H

#include "base/cursor.h"
#include "target/ops.h"

/* A mapping of the dead process, and the part of its bytes that the file holds. */
struct core_segment {
	uint64_t address;
	uint64_t memory_size;
	uint64_t offset; /* in the file */
	uint64_t size;   /* bytes in the file; less than declared if it is truncated */
	uint32_t flags;  /* PF_R, PF_W, PF_X */
};

struct core_thread {
	pid_t id;
	struct target_registers registers;
};

/* A line of NT_FILE. */
struct core_mapped {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	const char *path; /* in core->notes */
};

struct core {
	struct target base;
	int fd;
	uint64_t size; /* of the file, unpacked */
	struct target_core info;
	char *path;
	char command[17];
	char *exe; /* as given by the user, or NULL */
	uint64_t entry;
	uint64_t exec_name; /* address of the program's name; 0: not known */
	struct core_segment *segments;
	size_t segment_count; /* by address */
	size_t segment_capacity;
	struct core_thread *threads; /* the one that took the signal first */
	size_t thread_count;
	size_t thread_capacity;
	struct core_mapped *mapped; /* by address */
	size_t mapped_count;
	size_t mapped_capacity;
	char *notes;
	struct target_range *supplied; /* by the program's file */
	size_t supplied_count;
	size_t supplied_capacity;
};

/* Reads the ELF header, the program headers and the notes. */
struct error *core_read_file(struct core *core) must_check;

/* Takes the notes of one PT_NOTE segment. Unknown notes are skipped. The paths in core->mapped
 * point into these bytes. */
struct error *core_read_notes(struct core *core, const void *bytes, size_t size) must_check;

/*
 * For a file compressed by zstd: its bytes in a temporary file without a name, which disappears
 * with its descriptor, however gospect ends. *ret_fd is then not `fd`. An error in the data
 * truncates the core there: *ret_cut.
 */
struct error *core_unpack(int fd, const char *path, int *ret_fd, bool *ret_cut) must_check;

#endif
