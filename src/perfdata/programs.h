/* The mapped files of a recording's processes, as they are on this machine now. */
#ifndef PERFDATA_PROGRAMS_H
#define PERFDATA_PROGRAMS_H

#include "base/intern.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "perfdata/map_list.h"
#include "perfdata/perf_file.h"

enum file_state {
	FILE_USABLE,
	FILE_MISSING,
	FILE_OTHER_BUILD, /* it is not the recorded build */
	FILE_UNREADABLE,  /* no ELF file, or not allowed */
};

struct recorded_file {
	const char *path; /* as recorded */
	char *found;      /* where it is: at that path, at `exe`, or in perf's cache
			   * ($HOME/.debug) */
	enum file_state state;
	bool is_go;
	bool is_checked; /* by its build id */
	char build_id[ELF_BUILD_ID_SIZE];
	struct error *why; /* why the Go program cannot be used */
	bool said;
};

/* A Go program or library, at its address in a process. */
struct recorded_program {
	struct recorded_file *file;
	uint64_t bias;
	uint16_t number;
	struct image *image;
	struct golayout *layout;
};

struct programs {
	const struct perf_file *perf;
	enum machine machine;
	const char *exe; /* the user's; or NULL */
	bool exe_used;
	struct map by_path; /* address of the path -> place in files + 1 */
	struct recorded_file **files;
	size_t file_count;
	size_t file_capacity;
	struct recorded_program **items;
	size_t count;
	size_t capacity;
};

/* The file of a mapping; NULL: no memory. `path` stays the caller's. */
struct recorded_file *programs_file(struct programs *p, const char *path);
/* *ret is NULL when the mapping is not Go code, or its file is unusable: see file->why. */
struct error *programs_go(struct programs *p, const struct recorded_map *map,
			  const struct recorded_program **ret) must_check;
void programs_release(struct programs *p);

#endif
