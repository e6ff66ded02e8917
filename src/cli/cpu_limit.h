/* How much CPU time reading files may take, and what is said when it is used up. */
#ifndef CLI_CPU_LIMIT_H
#define CLI_CPU_LIMIT_H

#include <stdint.h>

/*
 * For the whole process, by the size of these files, NULL-terminated: seconds, for
 * gospect_confine(). When they are over gospect says so and ends with status 1. An unreadable file
 * counts as empty.
 */
uint64_t cpu_limit(const char *const *files);

#endif
