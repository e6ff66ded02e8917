/* Finds the processes to push, again and again as processes come and go, and keeps a worker for
 * each. */
#ifndef PUSH_PUSH_TARGETS_H
#define PUSH_PUSH_TARGETS_H

#include "base/strbuf.h"
#include "push/push_worker.h"

/* A process is wanted if one of these matches. */
struct push_wanted {
	bool host;                /* all Go processes */
	const char *const *names; /* of programs or processes; NULL-terminated, or NULL */
	const pid_t *pids;        /* 0 behind the last; or NULL */
	const char *container;    /* its id, or the first characters; NULL: none */
	bool children;            /* and what these have started, also later */
};

enum push_state {
	PUSH_FOUND,    /* it has no worker yet */
	PUSH_OPENING,  /* its worker reads the program */
	PUSH_RECORDED, /* its worker records it */
	PUSH_LEFT_OUT, /* it is no Go program, or may not be read */
};

struct push_target {
	pid_t pid;
	uint64_t start; /* of the process: another one may get its pid; 0: look at it anew */
	uint64_t device, inode; /* of its program, which exec replaces */
	char name[64];
	enum push_state state;
	bool is_seen;
	struct push_worker worker;
	struct strbuf in;   /* of its pipe, not handled yet */
	struct strbuf body; /* of the request under way */
	uint64_t heard_ns;  /* when its worker sent something last */
};

struct push_targets {
	struct push_target *items;
	size_t count, capacity;
	uint64_t device, inode; /* of gospect itself, which is not looked at */
};

void push_targets_init(struct push_targets *t);
/* Ends all workers. */
void push_targets_release(struct push_targets *t);

/* Looks at /proc: adds wanted processes, and removes those that are gone and have no worker. */
struct error *push_targets_scan(struct push_targets *t,
				const struct push_wanted *wanted) must_check;

/* Whether it is over: all wanted processes were given by id, and neither one of them nor what they
 * started is there any more. */
bool push_targets_are_gone(const struct push_targets *t, const struct push_wanted *wanted);

#endif
