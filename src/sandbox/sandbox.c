#include "sandbox/sandbox.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox/capabilities.h"
#include "sandbox/half.h"
#include "sandbox/syscall_filter.h"

#define CPU_GRACE 2 /* seconds between SIGXCPU and SIGKILL */

static struct half broker = HALF_NONE;
static bool entered;

bool sandbox_is_built(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

bool sandbox_is_entered(void)
{
	return entered;
}

static void limit(int resource, uint64_t value)
{
	struct rlimit now;

	if (getrlimit(resource, &now) || now.rlim_cur < value)
		return;
	now.rlim_cur = now.rlim_max = value;
	setrlimit(resource, &now);
}

/* SIGXCPU comes first, so that a handler can say why the process ends. A little time is left for
 * that. */
static void limit_cpu(uint64_t seconds)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_CPU, &now))
		return;
	if (now.rlim_cur > seconds)
		now.rlim_cur = seconds;
	if (now.rlim_max > seconds + CPU_GRACE)
		now.rlim_max = seconds + CPU_GRACE;
	setrlimit(RLIMIT_CPU, &now);
}

static struct error *must_check confine(const struct sandbox_options *o)
{
	struct error *err = capabilities_keep(o->keep);

	if (o->memory)
		limit(RLIMIT_DATA, o->memory);
	if (o->cpu_seconds)
		limit_cpu(o->cpu_seconds);
	limit(RLIMIT_CORE, 0);
	if (!err)
		err = filter_install(o->policy.pid, o->child);
	entered = !err;
	return err;
}

struct error *sandbox_enter(const struct sandbox_options *options)
{
	struct error *err;

	if (!sandbox_is_built())
		return NULL;
	err = half_start(&options->policy, "gospect-broker", &broker);
	if (err) {
		half_end(&broker);
		return err;
	}
	err = confine(options);
	door_set(broker_door(broker.socket));
	return err;
}

/* The user and group of files that nobody owns, as Linux has them. */
#define NOBODY 65534

/* Where the user's namespace lacks that number, it stays the user that it is, without
 * capabilities. */
static void become_nobody(void)
{
	if (geteuid())
		return;
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY))
		return;
	(void)!setresuid(NOBODY, NOBODY, NOBODY);
}

struct error *sandbox_enter_server(uint64_t memory)
{
	struct error *err;

	if (!sandbox_is_built())
		return NULL;
	/* The bounding set can be reduced by root alone. */
	err = capabilities_keep(1ull << CAP_SETUID | 1ull << CAP_SETGID);
	become_nobody();
	if (!err)
		err = capabilities_keep(0);
	limit(RLIMIT_DATA, memory);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NPROC, 0);
	if (!err)
		err = filter_install_server();
	entered = !err;
	return err;
}

void sandbox_leave(void)
{
	if (broker.socket < 0)
		return;
	door_set(NULL);
	half_end(&broker);
}
