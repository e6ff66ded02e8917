/* Which rule denies perf_event_open. Sources: perf_event_open(2), kernel/events/core.c. Levels 3
 * and 4 are patches of Debian and Ubuntu: they deny everything without a capability. */
#ifndef ONCPU_PERF_DENIED_H
#define ONCPU_PERF_DENIED_H

#include "base/error.h"
#include "target/access.h"

/* `err` is its errno, `level` is kernel.perf_event_paranoid. ERROR_DENIED, or ERROR_UNSUPPORTED
 * where the kernel has no such call. */
struct error *perf_explain(const struct access_self *self, int level, int err) must_check;

/* The same for kernel samples, which level 2 does not permit either. */
struct error *perf_explain_kernel(const struct access_self *self, int level, int err) must_check;

/* Reads kernel.perf_event_paranoid. */
int perf_paranoid_level(void);

/* The same for this process on this machine. */
struct error *perf_denied(int err) must_check;
struct error *perf_kernel_denied(int err) must_check;

#endif
