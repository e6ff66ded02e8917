/* The operations of a kind of target; for the files of this room alone. */
#ifndef TARGET_OPS_H
#define TARGET_OPS_H

#include "target/target.h"

struct target_ops {
	/* As target_read_ranges(). Fills either `packed` (all bytes concatenated) or each range's
	 * own buffer. */
	struct error *(*read)(struct target *t, const struct target_range *ranges, size_t count,
			      void *packed, size_t *ret_done);
	struct error *(*check)(struct target *t);
	bool (*has_descriptor)(const struct target *t, int fd); /* NULL: it has none */
	struct error *(*maps)(struct target *t, struct target_maps *ret);
	struct error *(*threads)(struct target *t, struct target_thread **ret, size_t *ret_count);
	/* As target_registers(); NULL: they are not known, and the target is not at one point in
	 * time. */
	bool (*registers)(const struct target *t, pid_t thread, struct target_registers *ret);
	struct error *(*open_exe)(struct target *t, int *ret_fd);
	struct error *(*entry)(struct target *t, uint64_t *ret);
	void (*close)(struct target *t);
};

/* The first member of every kind. */
struct target {
	const struct target_ops *ops;
	pid_t pid;
	char *exe_name;
};

/* Why the kernel denies reading this process, and the remedy. `looked`: PTRACE_MODE_READ was
 * permitted, and PTRACE_MODE_ATTACH was denied. */
struct error *target_denied(pid_t pid, bool looked) must_check;
/* Why /proc/PID cannot be opened, and the remedy. */
struct error *target_absent(pid_t pid) must_check;
/* Whether /proc exists and shows our own pid namespace, so that an id means the same process in
 * /proc and in system calls. */
struct error *target_check_proc(void) must_check;

/* A mapping from its line in /proc/PID/maps or smaps, which is modified; the caller frees its path.
 */
struct error *target_parse_map(char *line, struct target_map *ret) must_check;
/* Cuts the kernel's suffix off the name of a file that was deleted or replaced. */
void target_cut_deleted(char *path);

#endif
