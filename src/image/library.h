/*
 * Go as a shared library (-buildmode=c-shared) in a process whose program is not Go.
 */
#ifndef IMAGE_LIBRARY_H
#define IMAGE_LIBRARY_H

#include "base/error.h"
#include "target/target.h"

/*
 * The first file mapped with code, by address, that Go's linker wrote. The caller closes *ret_fd
 * and frees *ret_name; *ret_start is the address of the file's first byte, by its lowest mapping.
 * *ret_fd is -1 when there is none, and for a target that is no live process.
 */
struct error *library_find(struct target *t, int *ret_fd, char **ret_name,
			   uint64_t *ret_start) must_check;

/*
 * The file of a mapping, opened for reading; -1 when it cannot be. Right also when the file was
 * deleted or lies in another mount namespace.
 */
int library_open_mapped(pid_t pid, const struct target_map *map);

#endif
