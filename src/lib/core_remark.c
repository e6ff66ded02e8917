#include "lib/core_remark.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

static void add_signal(struct strbuf *sb, const struct target_core *core)
{
	const char *name = sigabbrev_np(core->signal), *words = sigdescr_np(core->signal);

	strbuf_addf(sb, "was killed by signal %d", core->signal);
	if (name)
		strbuf_addf(sb, " (SIG%s: %s)", name, words ? words : "");
	if (core->sender == core->pid && core->pid)
		strbuf_adds(sb, ", which it sent itself");
	else if (core->sender)
		strbuf_addf(sb, ", sent by process %d", core->sender);
	else if (core->fault_address)
		strbuf_addf(sb, ", at address 0x%lx", core->fault_address);
}

static void remark_end(const struct remark *to, const struct dump *dump)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct target_core *core = dump->core;

	if (core->pid)
		strbuf_addf(&sb, "process %d, ", core->pid);
	strbuf_addf(&sb, "%s, ", dump->exe);
	if (!core->threads)
		strbuf_adds(&sb, "cause of the end unknown (the core file has no thread status)");
	else if (core->signal > 0)
		add_signal(&sb, core);
	else
		strbuf_adds(&sb, "was running when the core file was written");
	remark(to, "%s", sb.data);
}

/* The text may hold anything, and goes to a terminal. */
static void remark_panic(const struct remark *to, const char *text)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (const char *s = text; *s; s++) {
		if (*s == '\n')
			strbuf_adds(&sb, "\\n");
		else if ((unsigned char)*s < ' ' || *s == 0x7f)
			strbuf_addf(&sb, "\\x%02x", *s);
		else
			strbuf_addc(&sb, *s);
	}
	remark(to, "panic: %s", sb.data);
}

static void remark_truncated(const struct remark *to, const struct dump *dump)
{
	const struct target_core *core = dump->core;
	const struct goroutine_stats *stats = goroutine_set_stats(dump->set);
	uint64_t missing = stats->missing + stats->faults;
	size_t without = 0;

	for (size_t i = 0; i < dump->count; i++)
		without += dump->items[i].unknown;
	if (core->whole_size > core->size)
		remark(to, "%s is truncated: it has %lu of %lu bytes", core->path, core->size,
		       core->whole_size);
	else if (core->truncated)
		remark(to, "%s is truncated or corrupt: its compressed data ends early",
		       core->path);
	if (missing || without)
		remark(to,
		       "%lu goroutines are missing from the core file or had ended; %zu are shown without a stack",
		       missing, without);
}

void core_remark(const struct remark *to, const struct dump *dump)
{
	remark_end(to, dump);
	if (dump->panic)
		remark_panic(to, dump->panic);
	if (dump->img->unchecked)
		remark(to, "%s has no build id: cannot check that %s is its program",
		       dump->core->path, dump->exe);
	remark_truncated(to, dump);
}
