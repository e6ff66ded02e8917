/* The file of a process, as words and names of files name it. */
#ifndef CLI_PROCESS_FILE_H
#define CLI_PROCESS_FILE_H

#include <sys/types.h>

#include "base/error.h"

/* The name of its program's file, without directories, also where the file was deleted; "process"
 * where that cannot be read. Text from outside. The caller frees it. */
struct error *process_file_name(pid_t pid, char **ret) must_check;

#endif
