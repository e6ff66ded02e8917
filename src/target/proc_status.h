/* What the kernel writes of a process or thread in /proc. A name may have any byte in it. */
#ifndef TARGET_PROC_STATUS_H
#define TARGET_PROC_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/* What FOLDER/stat has behind the name: " S 1 ...". `folder` is /proc/PID or /proc/PID/task/ID.
 * false, and "": there is no such process. */
bool target_stat_fields(const char *folder, char *ret, size_t size);

#endif
