#include "lib/trace_paths.h"

#include <gospect/requests.h>

#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "lib/request_paths_api.h"
#include "lib/trace_spans.h"

/* What goroutines did during the slowest requests. */
struct during {
	const struct gospect_requests *requests;
	struct history history;
};

static struct error *must_check add_span(void *arg, const struct span *span)
{
	struct during *d = arg;
	const struct requests *all = &d->requests->inner;

	for (size_t i = 0; i < all->count && i < REQUEST_PATHS_MOST; i++)
		if (span->begin < all->items[i].end && span->end > all->items[i].begin)
			return history_add(&d->history, span);
	return NULL;
}

static struct error *must_check read_during(const void *bytes, size_t size,
					    const struct gospect_recorded_options *o,
					    struct gospect_requests *requests, struct profile *p)
{
	struct during during = {.requests = requests};
	const struct trace_spans_options how = {
		.spans = {add_span, &during, .cancel = cancel_flag(o->cancel)},
		.name = o->name,
	};
	uint64_t duration;
	struct error *err = trace_spans_read(bytes, size, &how, &requests->tables, &duration);

	if (!err)
		err = request_paths_of(requests, &during.history, p);
	history_release(&during.history);
	return err;
}

struct error *trace_paths_read(const void *bytes, size_t size,
			       const struct gospect_recorded_options *o, struct profile *p)
{
	const struct gospect_requests_options how = {
		.size = sizeof(how),
		.name = o->name,
		.cancel = o->cancel,
	};
	struct gospect_requests *requests = NULL;
	struct error *err = error_in(gospect_requests_read(bytes, size, &how, &requests));

	/* Most traces have no requests. */
	if (err && err->code == ERROR_FAILED) {
		error_destroy(err);
		return NULL;
	}
	if (!err)
		err = read_during(bytes, size, o, requests, p);
	gospect_requests_destroy(requests);
	return err;
}
