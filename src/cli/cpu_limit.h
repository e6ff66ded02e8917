/* Limits the CPU time of reading files, and the message when it is used up. */
#ifndef CLI_CPU_LIMIT_H
#define CLI_CPU_LIMIT_H

#include <stdint.h>

/*
 * Returns the limit in seconds, by the size of these files (NULL-terminated), for
 * gospect_confine(). When the limit is reached, gospect says so and exits with status 1. An
 * unreadable file counts as empty.
 */
uint64_t cpu_limit(const char *const *files);

#endif
