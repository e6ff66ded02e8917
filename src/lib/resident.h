/* The resident memory of a process, and what its control group permits. */
#ifndef LIB_RESIDENT_H
#define LIB_RESIDENT_H

#include <stdint.h>
#include <sys/types.h>

struct resident {
	uint64_t rss;   /* bytes; 0: not known */
	uint64_t limit; /* of the control group that has least left; 0: none */
};

struct resident resident_read(pid_t pid);

#endif
