#include "waits/wait_words.h"

#include <inttypes.h>
#include <string.h>

#include "base/printable.h"

void words_add_object(struct strbuf *sb, const struct wait_object *o)
{
	if (o->kind == WAIT_CHANNEL && !o->address) {
		strbuf_adds(sb, "nil channel");
		return;
	}
	if (o->kind == WAIT_SELECT) {
		strbuf_adds(sb, "select without cases");
		return;
	}
	if (o->kind == WAIT_OTHER) {
		printable_adds(sb, o->name);
		return;
	}
	strbuf_adds(sb, wait_kind_name(o->kind));
	if (o->address)
		strbuf_addf(sb, " 0x%" PRIx64, o->address);
	if (!*o->name)
		return;
	strbuf_adds(sb, " (");
	printable_adds(sb, o->name);
	strbuf_addc(sb, ')');
}

static void add_rwmutex(struct strbuf *sb, const struct wait_object *o)
{
	if (o->writer)
		strbuf_adds(sb, o->readers > 0 ? "a writer waits for its readers, "
					       : "a writer has it, ");
	strbuf_addf(sb, "%" PRId64 " reader%s", o->readers, o->readers == 1 ? "" : "s");
	if (o->starving)
		strbuf_adds(sb, ", starving");
}

static void add_timer(struct strbuf *sb, const struct wait_graph *w, const struct wait_object *o)
{
	if (!o->due || !w->taken)
		return;
	strbuf_adds(sb, o->due > w->taken ? "due in " : "due since ");
	words_add_age(sb, o->due > w->taken ? o->due - w->taken : w->taken - o->due);
}

static void add_network(struct strbuf *sb, const struct wait_object *o)
{
	if (o->fd >= 0)
		strbuf_addf(sb, "fd %" PRId64, o->fd);
	if (!*o->local)
		return;
	strbuf_adds(sb, o->fd >= 0 ? ", " : "");
	printable_adds(sb, o->local);
	if (!*o->remote)
		return;
	strbuf_adds(sb, " to ");
	printable_adds(sb, o->remote);
}

void words_add_state(struct strbuf *sb, const struct wait_graph *w, const struct wait_object *o)
{
	if (!o->known)
		return;
	switch (o->kind) {
	case WAIT_MUTEX:
		strbuf_adds(sb, o->locked ? "locked" : "unlocked");
		strbuf_adds(sb, o->starving ? ", starving" : "");
		break;
	case WAIT_RWMUTEX:
		add_rwmutex(sb, o);
		break;
	case WAIT_WAITGROUP:
		strbuf_addf(sb, "%" PRId64 " not done", o->counter);
		break;
	case WAIT_CHANNEL:
		if (o->capacity)
			strbuf_addf(sb, "%" PRIu64 " of %" PRIu64 " elements", o->length,
				    o->capacity);
		else
			strbuf_adds(sb, "unbuffered");
		strbuf_adds(sb, o->closed ? ", closed" : "");
		break;
	case WAIT_NETWORK:
		add_network(sb, o);
		break;
	case WAIT_TIMER:
		add_timer(sb, w, o);
		break;
	default:
		break;
	}
}

void words_add_place(struct strbuf *sb, const struct wait_place *p)
{
	const char *slash = strrchr(p->file, '/');

	printable_adds(sb, *p->function ? p->function : "(unknown)");
	if (!*p->file)
		return;
	strbuf_adds(sb, " (");
	printable_adds(sb, slash ? slash + 1 : p->file);
	strbuf_addf(sb, ":%d)", p->line);
}

void words_add_age(struct strbuf *sb, uint64_t ns)
{
	if (ns >= 60000000000ull)
		strbuf_addf(sb, "%" PRIu64 " minute%s", (uint64_t)(ns / 60000000000ull),
			    ns < 120000000000ull ? "" : "s");
	else if (ns >= 1000000000)
		strbuf_addf(sb, "%.1f s", ns / 1e9);
	else
		strbuf_addf(sb, "%.1f ms", ns / 1e6);
}

uint64_t wait_age(const struct wait_graph *w, const struct wait_goroutine *g)
{
	return g->since && g->since <= w->taken ? w->taken - g->since : 0;
}
