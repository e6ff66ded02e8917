/*
 * Ownership by scope.
 *
 * A variable marked with one of these is released when its scope ends. A type with a destructor of
 * its own defines its attribute beside the destructor. take_ptr() hands a pointer out of the scope.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* Returns the pointer. The scope no longer owns it. */
#define take_ptr(p)                           \
	({                                    \
		__auto_type taken_ptr_ = (p); \
		(p) = NULL;                   \
		taken_ptr_;                   \
	})

#endif
