#include "inject/hasten.h"

#include <dirent.h>
#include <sched.h>

#include "base/cleanup.h"
#include "target/proc_status.h"

void hasten_end(pid_t pid)
{
	const struct sched_param usual = {0};
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	pid_t id;

	while (folder && (id = task_folder_next(folder)))
		if (sched_getscheduler(id) == SCHED_IDLE && thread_is_ending(pid, id))
			sched_setscheduler(id, SCHED_OTHER, &usual);
}
