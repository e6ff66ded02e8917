/*
 * A file in memory (memfd) that a thread of the target has made for us, and our descriptor of it.
 *
 * The target makes it, so that it has the target's user and security context, whose policies permit
 * the mapping. But other threads of the target run meanwhile. They may replace the descriptor by
 * any file with dup2(), even one that the target may not open: an O_PATH descriptor of it is
 * enough. So the descriptor is first taken without opening the file (O_PATH), and what was taken is
 * looked at; then that very file is opened, by our own descriptor. Nothing is opened, truncated or
 * written through a name that the target can change.
 *
 * Reading a mapped file that was truncated is SIGBUS, so gospect seals the size before it maps the
 * file.
 */
#ifndef INJECT_MEMFILE_H
#define INJECT_MEMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/target.h"

/*
 * Opens the file of the descriptor at `path` (/proc/PID/fd/N) for reading and writing, if it is a
 * new memfd: empty, without a name in any directory, with that name and owner, and without a seal
 * that prevents more. Else ERROR_DENIED, and nothing was opened.
 */
struct error *memfile_adopt(const char *path, const char *name, uid_t owner, int *ret) must_check;

/* Makes it so large. */
struct error *memfile_resize(int file, size_t size) must_check;

/* Seals its size for good; `also`: other seals (F_SEAL_WRITE). ERROR_DENIED when it was changed
 * meanwhile, or cannot be sealed. */
struct error *memfile_seal(int file, size_t size, int also) must_check;

/* Copies a part of it. Pages that were never written read as zeros and take no memory; reading them
 * through a mapping would allocate them. */
void memfile_read(int file, uint64_t offset, void *ret, size_t size);

/* Which file of all, as mappings say it. */
struct memfile_id {
	dev_t device;
	uint64_t inode;
};

struct memfile_id memfile_id(int file);
bool memfile_is(const struct target_map *map, struct memfile_id id);

/* The target has this part of the file there, in one mapping, and nothing else. */
struct error *memfile_check_mapped(struct target *t, int file, uint64_t address, uint64_t size,
				   uint64_t offset) must_check;

#endif
