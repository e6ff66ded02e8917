/* What the kernel permits gospect to do to its own processes, tested on a child that does nothing
 * else. */
#ifndef LIB_PROBE_H
#define LIB_PROBE_H

#include "base/error.h"

/* NULL: it works. */
struct error *probe_memory(void) must_check;           /* by any way that gospect has */
struct error *probe_process_vm_readv(void) must_check; /* the fast way */
struct error *probe_ptrace(void) must_check;
struct error *probe_suspend_filters(void) must_check; /* seccomp's, while it is traced */
struct error *probe_perf_events(void) must_check;     /* the event cpu-clock, as record uses it */
struct error *probe_bpf(void) must_check; /* of gospect itself: the rights that labels need */

#endif
