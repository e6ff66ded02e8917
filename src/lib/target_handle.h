/* The definition of struct gospect_target: an open target with a validated layout. */
#ifndef LIB_TARGET_HANDLE_H
#define LIB_TARGET_HANDLE_H

#include <gospect/memory_snapshot.h>
#include <gospect/target.h>
#include <stdatomic.h>

#include "base/strbuf.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "lib/given.h"
#include "lib/remark.h"
#include "target/target.h"

struct gospect_target {
	struct target *target;
	struct image *image;
	struct golayout *layout;
	struct gospect_target_info info;
	struct strbuf build; /* info.build */
	struct arena last;   /* what gospect_target_symbolize() gave out */
	bool is_held;        /* it waits before its first line until it is released */
	const atomic_int *cancel;
	const struct gospect_cancel *cancelled_by; /* the owner of the flag; NULL: none */
	struct remark remark;
	/* Of the CPU's clock, once it was measured: with another one for each profile, a difference
	 * of two would have stacks that did not change. */
	double ticks_per_ns;
	/* While there is one, `target` reads it. */
	struct held_snapshot *snapshot;
	struct gospect_memory_snapshot_info snapshot_info; /* of the last one */
};

/* ERROR_STOPPED when the caller's calls are cancelled. */
struct error *target_check_cancel(const struct gospect_target *t) must_check;

/* Remarks that a process is stopped by a signal or a debugger. */
void target_remark_stopped(const struct gospect_target *t);

static inline void cleanup_gospect_target(struct gospect_target **t)
{
	gospect_target_close(*t);
}
#define _cleanup_gospect_target_ __attribute__((cleanup(cleanup_gospect_target)))

#endif
