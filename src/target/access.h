/*
 * Which permission reading a process needs, and which rule of the kernel denies it. The facts are
 * gathered first, then explained, so that rules which this kernel lacks can be tested. Sources:
 * ptrace(2), kernel/ptrace.c (__ptrace_may_access), security/commoncap.c (cap_ptrace_access_check),
 * security/yama/yama_lsm.c, fs/proc/root.c (hidepid).
 */
#ifndef TARGET_ACCESS_H
#define TARGET_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/door.h"
#include "base/error.h"

/* The rights of gospect itself. Capabilities are bits, as in /proc/PID/status. */
struct access_self {
	uid_t uid;
	gid_t gid;
	uint64_t capabilities;
	uint64_t bounding;    /* what we could have at all */
	bool no_new_privs;    /* sudo does not work */
	bool filtered;        /* a seccomp filter decides on system calls of any of our threads */
	bool inner_user;      /* we are not in the first user namespace */
	bool inner_pid;       /* not in the initial pid namespace either */
	char confinement[80]; /* by a security module; "" for none */
};

/* The process that may not be read; all of it is visible to everybody. */
struct access_object {
	pid_t pid;
	uid_t uids[3]; /* real, effective, saved */
	gid_t gids[3];
	uint64_t capabilities; /* permitted ones */
	bool undumpable;       /* not seen of a process of root */
	bool other_user_namespace;
};

struct access_question {
	struct access_self self;
	struct access_object object;
	int yama;    /* kernel.yama.ptrace_scope; 0 also without Yama */
	bool looked; /* we were allowed to look at it (maps, exe), but not to attach (mem) */
};

void access_self_read(struct access_self *ret);
/* The permitted capabilities of a process. A reader that lacks one of them needs CAP_SYS_PTRACE. */
uint64_t access_permitted(pid_t pid);

/* The broker's part: a service of the door (DOOR_USER), the name of a uid. `arg` is not used. */
struct error *access_serve_user(void *arg, struct door_call *call) must_check;

/* "SYS_PTRACE" for CAP_SYS_PTRACE; NULL for one that is newer than this program. */
const char *access_capability_name(int capability);
/* kernel.yama.ptrace_scope; 0 also without Yama. */
int access_yama_scope(void);
/* hidepid= of the mount on /proc, "" when it hides nothing. */
void access_hidepid(char *ret, size_t size);
/* The number of this process's threads with a seccomp filter: each has filters of its own, or none.
 * 0: of ours, as far as the door shows. */
size_t access_filtered_threads(pid_t pid);

/* Our kernel is gVisor's. It has ptrace(2), but gospect cannot stop all threads of a program there.
 */
bool access_in_gvisor(void);

/* ERROR_DENIED with the rule and the remedy. */
struct error *access_explain(const struct access_question *q) must_check;

/* How to obtain this capability (CAP_*, by number). */
const char *access_remedy(const struct access_self *self, int capability);

/* Why /proc/PID is not there or may not be opened. `exists`: there is such a process all the same;
 * `hidepid` is that option of /proc's mount, or "". */
struct error *access_explain_absent(const struct access_self *self, pid_t pid, bool exists,
				    const char *hidepid) must_check;

#endif
