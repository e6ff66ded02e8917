/* Files in memory that a thread of the target makes for us, and maps. */
#ifndef INJECT_REMOTE_FILE_H
#define INJECT_REMOTE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/remote.h"

#ifndef MFD_EXEC
#define MFD_NOEXEC_SEAL 0x8u
#define MFD_EXEC 0x10u
#endif

/* As remote_call(); ERROR_DENIED when the system call fails: the process may not do `what`. */
struct error *remote_must(struct remote *r, const char *what, long number, const uint64_t a[6],
			  int64_t *ret) must_check;

/* A file of that size: its number in the target, and our own descriptor (inject/memfile.h).
 * `flags`: MFD_EXEC or MFD_NOEXEC_SEAL, where the kernel knows them. Its size is still to be
 * sealed. */
struct error *remote_file(struct remote *r, const char *name, unsigned int flags, size_t size,
			  int64_t *ret_theirs, int *ret_ours) must_check;

struct error *remote_close(struct remote *r, int64_t theirs) must_check;

#endif
