/* The worker that watches a process for its last hour: it sends a beat every 10 seconds, and keeps
 * profiles in the store. */
#ifndef SERVE_SERVE_WATCH_H
#define SERVE_SERVE_WATCH_H

#include <gospect/process.h>
#include <gospect/target.h>
#include <gospect/write.h>
#include <sys/types.h>

#include "base/error.h"
#include "serve/serve_store.h"

/* Until the process ends, nobody takes the beats any more, or it is cancelled. `store` may be NULL.
 */
struct error *serve_watch(struct gospect_target *target, pid_t pid, struct serve_store *store,
			  const struct gospect_cancel *cancel, struct gospect_sink to) must_check;

/* One profile of the time from `from` to `to`, in seconds since 1970, with a time axis. */
struct error *serve_hour_write(const struct serve_store *store, double from, double to,
			       enum gospect_format format, struct gospect_sink sink) must_check;
/* A page that compares the last third of that time, as far as it was kept, with the first. */
struct error *serve_growth_write(const struct serve_store *store, double from, double to,
				 struct gospect_sink sink) must_check;

#endif
