#include "lib/hold.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "inject/holder.h"
#include "lib/error_api.h"
#include "target/target.h"

/* How long the child may take to call exec, and the program's runtime to be set up; and how often
 * gospect checks whether it is a Go program by now. */
#define HOLD_MS 5000
#define LOOK_MS 20

struct gospect_hold {
	pid_t child;
	struct holder *holder;
};

struct gospect_error *gospect_hold_start(int child, struct gospect_hold **ret)
{
	struct gospect_hold *hold = calloc(1, sizeof(*hold));
	struct error *err = hold ? holder_start(child, &hold->holder) : &error_no_memory;

	if (err) {
		free(hold);
		return error_out(err);
	}
	hold->child = child;
	*ret = hold;
	return NULL;
}

void gospect_hold_release(struct gospect_hold *hold)
{
	if (!hold)
		return;
	holder_release(hold->holder);
	free(hold);
}

bool child_has_ended(pid_t child)
{
	siginfo_t info = {0};

	return !waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* The address at which to hold a Go program that has just called exec; 0: none. */
static struct error *must_check find_beginning(pid_t pid, const char *exe, uint64_t *ret,
					       bool *ret_library)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	_cleanup_golayout_ struct golayout *lay = NULL;
	struct go_func f;
	struct error *err = target_open_process(pid, &t);

	if (!err)
		err = image_open(t, exe, &img);
	if (!err)
		err = golayout_open(img, t, &lay);
	if (err)
		return err;
	*ret = pclntab_find_name(&img->functions, HOLDER_FUNCTION, &f) ? f.entry : 0;
	*ret_library = img->library;
	return NULL;
}

static bool may_go_on(const struct gospect_hold *hold, uint64_t end, const atomic_int *cancel)
{
	return !atomic_load(cancel) && clock_now() < end && !child_has_ended(hold->child);
}

/* The child's first exec, which is certain: a busy machine may only report it late. */
static bool await_first_exec(const struct gospect_hold *hold, const atomic_int *cancel)
{
	uint64_t end = clock_now() + HOLD_MS * 1000000ull;
	bool execed = false;

	while (!execed && may_go_on(hold, end, cancel))
		execed = holder_await_exec(hold->holder, LOOK_MS);
	return execed;
}

struct error *hold_where_it_begins(struct gospect_hold *hold, const char *exe, double seconds,
				   const atomic_int *cancel)
{
	bool execed = await_first_exec(hold, cancel);
	uint64_t end = clock_now() + (uint64_t)(seconds * 1e9), address;
	struct error *not_go = NULL;
	bool known = false, library, was_library = false;

	for (; !known && may_go_on(hold, end, cancel);
	     execed = !known && holder_await_exec(hold->holder, LOOK_MS)) {
		struct error *err = find_beginning(hold->child, exe, &address, &library);

		/* A program that is read while it calls exec may look like a library: so it must
		 * look so twice. */
		known = !err && (execed || (library && was_library));
		was_library = !err && library;
		if (execed && !err && address && !library)
			holder_hold(hold->holder, address, HOLD_MS);
		else if (execed)
			holder_pass(hold->holder);
		if (err && err->code == ERROR_NOT_GO && !not_go)
			not_go = err;
		else
			error_destroy(err);
	}
	/* From here on nobody is told of an exec, for which the child would wait. */
	if (!known)
		holder_release(take_ptr(hold->holder));
	return not_go;
}
