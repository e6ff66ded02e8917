#include "inject/claim_page.h"

#include <linux/futex.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/proc_status.h"

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

void claim_page_sign(struct claim_page *page, pid_t thread)
{
	page->pid = (uint32_t)getpid();
	page->namespace = pid_namespace();
	__atomic_store_n(&page->holder, (uint32_t)thread, __ATOMIC_RELEASE);
}

pid_t claim_page_holder(const struct claim_page *page, bool *ret_here)
{
	*ret_here = page->namespace == pid_namespace();
	if (!(page->holder & FUTEX_TID_MASK) || page->holder & FUTEX_OWNER_DIED)
		return 0;
	if (*ret_here && process_is_dead((pid_t)page->pid))
		return 0;
	return (pid_t)(page->named ? page->named : page->pid);
}
