#include "inject/forks.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "inject/fault.h"
#include "target/proc_status.h"

void forks_find_dead(pid_t pid, struct forks *ret)
{
	_cleanup_closedir_ DIR *folder = process_folder_open();
	struct process_parentage p;
	pid_t id;

	ret->count = 0;
	while (folder && ret->count < FORKS_MOST && (id = process_folder_next(folder)))
		if (process_parentage(id, &p) && p.parent == pid && !p.exit_signal &&
		    (p.state == 'Z' || p.state == 'X'))
			ret->ids[ret->count++] = id;
}

static struct error *must_check reap(struct remote *r, pid_t id)
{
	pid_t inner = target_is_nested(r->pid) ? target_inner_id(id) : id;
	int64_t result;

	return remote_call(r, SYS_wait4, (uint64_t[6]){(uint64_t)inner, 0, __WALL | WNOHANG, 0},
			   &result);
}

struct error *forks_reap(struct remote *r, const struct forks *forks)
{
	struct error *err = NULL;

	for (size_t i = 0; i < forks->count && !err; i++) {
		err = reap(r, forks->ids[i]);
		fault_point("fork-reaped");
	}
	return err;
}
