/*
 * How much a process has to wait for a processor, as the kernel tells it (pressure stall
 * information: Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v2.rst).
 */
#ifndef TARGET_PRESSURE_H
#define TARGET_PRESSURE_H

#include <sys/types.h>

/*
 * The percentage of the last ten seconds, those just past counting most, in which some thread of
 * the process's cgroup waited for a processor; of the machine where the kernel does not tell it by
 * cgroup. Negative: not known (before Linux 4.20, or switched off). `root` is "", but in tests.
 */
double cpu_pressure(const char *root, pid_t pid);

#endif
