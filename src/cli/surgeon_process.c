#include "cli/surgeon_process.h"

#include "cli/stop.h"
#include "inject/surgeon.h"
#include "sandbox/sandbox.h"

struct error *surgeon_process_add(struct confinement *c)
{
	struct surgeon *surgeon;
	struct error *err;

	if (!sandbox_is_built())
		return NULL;
	err = surgeon_create(c->pid, NULL, &surgeon);
	/* Where there is none, inject_attach() says so. */
	if (err && err->code == ERROR_UNSUPPORTED) {
		error_destroy(err);
		return NULL;
	}
	if (err)
		return err;
	c->surgeon = (struct broker_service){surgeon_serve, surgeon};
	stop_share(surgeon_stop(surgeon));
	return NULL;
}
