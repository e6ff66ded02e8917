/* The surgeon's process (inject/surgeon.h), as an object. */
#include "lib/surgeon_api.h"

#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "sandbox/helper.h"
#include "target/target.h"

_Static_assert(sizeof(atomic_int) == sizeof(sig_atomic_t), "one is looked at as the other");

struct gospect_surgeon {
	struct helper *helper;
};

/* The surgeon's process has a copy of `inner`; this process needs it no longer. */
static struct error *must_check start(struct surgeon *inner, struct gospect_surgeon *s)
{
	const struct broker_service service = {surgeon_serve, inner};
	struct error *err = helper_start(service, "gospect-surgeon", &s->helper);

	surgeon_destroy(inner);
	return err;
}

struct gospect_error *gospect_surgeon_start(int pid, const struct gospect_cancel *cancel,
					    struct gospect_surgeon **ret)
{
	_cleanup_gospect_surgeon_ struct gospect_surgeon *s = calloc(1, sizeof(*s));
	const atomic_int *stop = cancel ? cancel_flag(cancel) : NULL;
	struct surgeon *inner;
	struct error *err;

	if (!s)
		return error_out(&error_no_memory);
	err = surgeon_create(target_process_of(pid), (const volatile sig_atomic_t *)stop, &inner);
	if (!err)
		err = start(inner, s);
	if (!err)
		*ret = take_ptr(s);
	return error_out(err);
}

void gospect_surgeon_end(struct gospect_surgeon *s)
{
	if (!s)
		return;
	helper_end(s->helper);
	free(s);
}

static struct error *must_check ask(void *arg, struct door_call *call)
{
	return helper_ask(arg, call);
}

struct surgeon_line surgeon_line_of(struct gospect_surgeon *s)
{
	return (struct surgeon_line){ask, s->helper};
}
