/* The name of a process's program, for messages and file names. */
#ifndef CLI_PROCESS_FILE_H
#define CLI_PROCESS_FILE_H

#include <sys/types.h>

#include "base/error.h"

/* The base name of its program's file, even if that was deleted. Where that cannot be read, or is a
 * memfd, what the kernel calls the process; "process" without that. Text from outside. The caller
 * frees it. */
struct error *process_file_name(pid_t pid, char **ret) must_check;
/* The reason without "cannot read process 12: ", which differs for each process. */
const char *process_reason(const char *problem);

#endif
