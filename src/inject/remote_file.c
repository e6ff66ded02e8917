#include "inject/remote_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject/fault.h"
#include "inject/memfile.h"
#include "target/proc_status.h"

static struct error *must_check refused(const struct remote *r, const char *what, int64_t result)
{
	const char *hint = "";

	if (result == -EACCES || result == -EPERM)
		hint = " (a policy forbids it: SELinux, systemd's MemoryDenyWriteExecute or "
		       "vm.memfd_noexec)";
	else if (result == -ENOMEM)
		hint = " (its address space limit, ulimit -v, is reached)";
	else if (result == -EAGAIN)
		hint = " (its limit of locked memory, ulimit -l, is reached)";
	return error_errno(ERROR_DENIED, (int)-result, "process %d cannot %s%s", r->pid, what,
			   hint);
}

struct error *remote_must(struct remote *r, const char *what, long number, const uint64_t a[6],
			  int64_t *ret)
{
	struct error *err = remote_call(r, number, a, ret);

	if (err)
		return err;
	return *ret < 0 && *ret > -4096 ? refused(r, what, *ret) : NULL;
}

/* The thread makes an empty file; its number there. */
static struct error *must_check create(struct remote *r, const char *name, unsigned int flags,
				       int64_t *ret)
{
	uint64_t text;
	struct error *err = remote_text(r, name, &text);

	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	if (!err)
		err = remote_call(r, SYS_memfd_create, (uint64_t[6]){text, flags}, ret);
	/* Linux before 6.3 does not know these two, and needs them not. */
	flags &= ~(MFD_EXEC | MFD_NOEXEC_SEAL);
	if (!err && *ret == -EINVAL)
		err = remote_call(r, SYS_memfd_create, (uint64_t[6]){text, flags}, ret);
	if (!err && *ret < 0)
		err = refused(r, "create a memory file (memfd)", *ret);
	fault_point("file-made");
	return err;
}

struct error *remote_file(struct remote *r, const char *name, unsigned int flags, size_t size,
			  int64_t *ret_theirs, int *ret_ours)
{
	pid_t maker = r->threads.items[0].id;
	char path[64];
	struct error *err = create(r, name, flags, ret_theirs);

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", maker, (int)*ret_theirs);
	err = memfile_adopt(path, name, thread_user(maker), ret_ours);
	return err ? err : memfile_resize(*ret_ours, size);
}

struct error *remote_close(struct remote *r, int64_t theirs)
{
	int64_t result;

	return remote_call(r, SYS_close, (uint64_t[6]){theirs}, &result);
}
