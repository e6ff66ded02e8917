/* For architectures without an agent: no process is ever stopped. */
#include "inject/holder.h"
#include "inject/surgeon.h"

#include <stddef.h>

static struct error *must_check refused(void)
{
	return error_format(ERROR_UNSUPPORTED,
			    "trace supports amd64 and arm64 only; use record or dump here");
}

struct error *surgeon_create(pid_t pid, const volatile sig_atomic_t *stop, struct surgeon **ret)
{
	return refused();
}

void surgeon_destroy(struct surgeon *s)
{
}

struct error *surgeon_call(struct surgeon_line line, struct surgeon **ret)
{
	return refused();
}

struct error *surgeon_ask(struct surgeon *s, struct surgeon_request *request)
{
	return refused();
}

struct error *surgeon_serve(void *arg, struct door_call *call)
{
	door_call_drop(call);
	return refused();
}

struct error *holder_start(pid_t child, struct holder **ret)
{
	return refused();
}

bool holder_await_exec(struct holder *h, int ms)
{
	return false;
}

void holder_pass(struct holder *h)
{
}

bool holder_hold(struct holder *h, uint64_t address, int ms)
{
	return false;
}

void holder_release(struct holder *h)
{
}
