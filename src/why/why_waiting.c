/* The rules about waits: hung, slow, leaking. */
#include <inttypes.h>
#include <string.h>

#include "why/rule.h"
#include "why/thresholds.h"
#include "why/why_words.h"

static double working_part(const struct why_numbers *n, double goroutines)
{
	return n->working > 0 ? goroutines / n->working : 0;
}

/* "takes 82 ms", for waits that ended. */
static void add_length(struct strbuf *sb, const struct why_place *p, double seconds)
{
	if (p->goroutines <= p->whole || p->length <= 0) {
		strbuf_adds(sb, " lasts all the time");
		return;
	}
	strbuf_adds(sb, " takes ");
	why_add_seconds(sb, p->length < seconds ? p->length : seconds);
}

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* "main.(*store).put" of "a/b.(*T).m", with the wait reason. */
static void add_place(struct strbuf *sb, const struct why_place *p)
{
	why_add_function(sb, p->function);
	if (*p->wait)
		strbuf_addf(sb, " [%s]", p->wait);
}

static void add_holder(struct strbuf *sb, const struct why_object *o)
{
	const struct why_holder *h = &o->holder;

	if (!h->function) {
		strbuf_adds(sb, "; its holder is not known");
		return;
	}
	strbuf_adds(sb, h->proved ? "; " : "; perhaps ");
	if (h->goroutine)
		strbuf_addf(sb, "goroutine %" PRIu64 " in ", h->goroutine);
	why_add_function(sb, h->function);
	strbuf_adds(sb, " holds it");
	if (o->looks > 1)
		strbuf_addf(sb, " in %u of %u looks", h->looks, o->looks);
	if (h->stands && *h->stands)
		strbuf_addf(sb, ", while it is in [%s]", h->stands);
	if (h->reason && *h->reason)
		strbuf_addf(sb, " (%s)", h->reason);
}

/* ---- hung ---- */

bool why_find_deadlock(const struct why_numbers *n, struct draft *d)
{
	const struct why_cycle *c = n->cycles;

	if (!n->cycle_count)
		return false;
	d->severity = c->proved ? WHY_CRITICAL : WHY_MINOR;
	strbuf_adds(&d->sentence, c->proved ? "Hung: a deadlock: " : "Perhaps hung: a deadlock: ");
	if (c->goroutines == 1)
		strbuf_adds(&d->sentence, "1 goroutine waits for a lock that it holds itself");
	else
		strbuf_addf(&d->sentence, "%zu goroutines wait for each other", c->goroutines);
	strbuf_adds(&d->sentence,
		    c->proved ? " and can never go on" : ", if the holders are right");
	if (n->cycle_count > 1)
		strbuf_addf(&d->sentence, "; there are %zu more cycles", n->cycle_count - 1);
	strbuf_adds(&d->evidence, c->steps);
	draft_command(d, n, "waits");
	return true;
}

bool why_find_stopped(const struct why_numbers *n, struct draft *d)
{
	if (n->state != 'T' && n->state != 't')
		return false;
	d->severity = WHY_CRITICAL;
	if (n->tracer) {
		strbuf_adds(&d->sentence, "Hung: the process is stopped by a debugger");
		strbuf_addf(&d->evidence, "process %d traces it", n->tracer);
		strbuf_addf(&d->next, "ps -p %d", n->tracer);
		return true;
	}
	strbuf_adds(&d->sentence, "Hung: the process is stopped by a signal (SIGSTOP)");
	strbuf_addf(&d->evidence, "its state in /proc is %c", n->state);
	strbuf_addf(&d->next, "kill -CONT%s", strncmp(n->target, "-p", 2) ? "" : n->target + 2);
	return true;
}

/* Goroutines of deadlocks, which are told already. */
static double in_cycles(const struct why_numbers *n)
{
	double count = 0;

	for (size_t i = 0; i < n->cycle_count; i++)
		count += n->cycles[i].proved ? n->cycles[i].goroutines : 0;
	return count;
}

static const struct why_place *most_stuck(const struct why_numbers *n)
{
	for (size_t i = 0; i < n->place_count; i++)
		if (n->places[i].kind == STACK_LOCK && n->places[i].whole >= 1)
			return &n->places[i];
	return NULL;
}

static const struct why_object *object_of(const struct why_numbers *n, bool is_channel)
{
	for (size_t i = 0; i < n->object_count; i++)
		if ((n->objects[i].capacity > 0) == is_channel)
			return &n->objects[i];
	return NULL;
}

bool why_find_stuck_lock(const struct why_numbers *n, struct draft *d)
{
	const struct why_place *p = most_stuck(n);
	const struct why_object *o = object_of(n, false);

	if (!p || n->seconds < STUCK_SECONDS || p->whole <= in_cycles(n))
		return false;
	d->severity = WHY_CRITICAL;
	strbuf_adds(&d->sentence, "Hung: ");
	why_add_goroutines(&d->sentence, p->whole);
	strbuf_adds(&d->sentence, " waited for a lock all the time, ");
	why_add_seconds(&d->sentence, n->seconds);
	if (o)
		strbuf_addf(&d->sentence, ": %s", o->name);
	strbuf_adds(&d->evidence, "they wait in ");
	add_place(&d->evidence, p);
	if (o)
		add_holder(&d->evidence, o);
	draft_command(d, n, "waits");
	return true;
}

bool why_find_quiet(const struct why_numbers *n, struct draft *d)
{
	double blocked = 0;
	const struct why_place *first = NULL;

	for (size_t i = 0; i < n->place_count; i++) {
		const struct why_place *p = &n->places[i];

		if (p->kind != STACK_BLOCKED && p->kind != STACK_SEND && p->kind != STACK_POOL)
			continue;
		blocked += p->whole;
		first = first ?: p;
	}
	if (n->seconds < QUIET_SECONDS || n->moves > 0 || n->running > 0 ||
	    n->cpu.cores > QUIET_CORES || !first || blocked < 1 ||
	    blocked < QUIET_PART * n->goroutines || n->state == 'T')
		return false;
	d->severity = WHY_MINOR;
	strbuf_adds(&d->sentence, "Perhaps hung: no goroutine ran for ");
	why_add_seconds(&d->sentence, n->seconds);
	strbuf_adds(&d->sentence, ", and ");
	why_add_goroutines(&d->sentence, blocked);
	strbuf_adds(&d->sentence, " wait within their work");
	strbuf_adds(&d->evidence, "most of them in ");
	add_place(&d->evidence, first);
	strbuf_adds(&d->evidence, "; what ends these waits is not known");
	draft_command(d, n, "waits");
	return true;
}

/* ---- slow ---- */

bool why_find_lock(const struct why_numbers *n, struct draft *d)
{
	double waiters = n->of_kind[STACK_LOCK];
	const struct why_place *p = why_place_of(n, STACK_LOCK, 0), *stuck = most_stuck(n);
	const struct why_object *o = object_of(n, false);

	/* Locks that nobody gives back, and deadlocks, are other findings. */
	if ((stuck && n->seconds >= STUCK_SECONDS && stuck->whole >= 0.5 * waiters) ||
	    waiters <= in_cycles(n))
		return false;
	if (!p || waiters < LOCK_WAITERS || working_part(n, waiters) < LOCK_PART)
		return false;
	strbuf_adds(&d->sentence, "Slow: ");
	why_add_goroutines(&d->sentence, waiters);
	strbuf_adds(&d->sentence, " wait for a lock, ");
	why_add_share(&d->sentence, working_part(n, waiters));
	strbuf_adds(&d->sentence, " of those at work");
	if (o)
		strbuf_addf(&d->sentence, ": %s", o->name);
	strbuf_adds(&d->evidence, "a wait in ");
	add_place(&d->evidence, p);
	add_length(&d->evidence, p, n->seconds);
	if (o)
		add_holder(&d->evidence, o);
	draft_command(d, n, "waits");
	return true;
}

static void add_pool_use(struct strbuf *sb, const struct why_numbers *n)
{
	const struct why_place *p = why_place_of(n, STACK_POOL_USE, 0);

	if (!p)
		return;
	strbuf_adds(sb, "; ");
	why_add_goroutines(sb, n->of_kind[STACK_POOL_USE]);
	strbuf_adds(sb, n->of_kind[STACK_POOL_USE] == 1 ? " uses" : " use");
	strbuf_adds(sb, " the connections, most in ");
	add_place(sb, p);
}

bool why_find_pool(const struct why_numbers *n, struct draft *d)
{
	double waiters = n->of_kind[STACK_POOL];
	const struct why_place *p = why_place_of(n, STACK_POOL, 0);

	if (!p || waiters < POOL_WAITERS || working_part(n, waiters) < POOL_PART)
		return false;
	strbuf_adds(&d->sentence, "Slow: the connection pool is exhausted: ");
	why_add_goroutines(&d->sentence, waiters);
	strbuf_adds(&d->sentence, " wait for a free connection, ");
	why_add_share(&d->sentence, working_part(n, waiters));
	strbuf_adds(&d->sentence, " of those at work");
	strbuf_adds(&d->evidence, "a wait in ");
	add_place(&d->evidence, p);
	add_length(&d->evidence, p, n->seconds);
	add_pool_use(&d->evidence, n);
	strbuf_addf(&d->next, "gospect record %s -d 10 --func 'sql|pool|semaphore' -o pool.html",
		    n->target);
	return true;
}

bool why_find_disk(const struct why_numbers *n, struct draft *d)
{
	double calls = n->of_kind[STACK_DISK], files = n->of_kind[STACK_FILE];
	const struct why_place *p = why_place_of(n, STACK_DISK, 0);

	if (n->sleeping >= DISK_SLEEPERS && files > 0) {
		calls += files;
		if (!p || n->of_kind[STACK_DISK] < files)
			p = why_place_of(n, STACK_FILE, 0);
	}
	if (!p || calls < DISK_CALLS || working_part(n, calls) < DISK_PART)
		return false;
	strbuf_adds(&d->sentence, "Slow: the disk is slow: ");
	why_add_goroutines(&d->sentence, calls);
	strbuf_adds(&d->sentence, " wait for files, ");
	why_add_share(&d->sentence, working_part(n, calls));
	strbuf_adds(&d->sentence, " of those at work");
	strbuf_adds(&d->evidence, "a system call in ");
	add_place(&d->evidence, p);
	add_length(&d->evidence, p, n->seconds);
	if (n->sleeping >= 0) {
		strbuf_adds(&d->evidence, "; threads in uninterruptible sleep: ");
		why_add_amount(&d->evidence, n->sleeping);
	}
	strbuf_addf(&d->next, "gospect record %s -d 10 --state syscall -o disk.html", n->target);
	return true;
}

bool why_find_peer(const struct why_numbers *n, struct draft *d)
{
	double waiters = n->of_kind[STACK_PEER];
	const struct why_place *p = why_place_of(n, STACK_PEER, 0);

	if (!p || waiters < PEER_WAITERS || working_part(n, waiters) < PEER_PART ||
	    p->length < PEER_SECONDS)
		return false;
	strbuf_adds(&d->sentence, "Slow: a peer is slow: ");
	why_add_goroutines(&d->sentence, waiters);
	strbuf_adds(&d->sentence, " wait for the network");
	if (n->peer.address)
		strbuf_addf(&d->sentence, ", most for %s", n->peer.address);
	strbuf_adds(&d->evidence, "a wait in ");
	add_place(&d->evidence, p);
	add_length(&d->evidence, p, n->seconds);
	if (n->peer.address) {
		strbuf_addf(&d->evidence, "; %s", n->peer.address);
		strbuf_adds(&d->evidence, " is the other end of ");
		why_add_amount(&d->evidence, n->peer.goroutines);
		strbuf_adds(&d->evidence, n->peer.goroutines == 1 ? " connection" : " connections");
		if (n->peer.fd >= 0)
			strbuf_addf(&d->evidence, " (one is fd %" PRId64 ")", n->peer.fd);
	} else {
		strbuf_adds(&d->evidence, "; its address is not known");
	}
	draft_command(d, n, "waits");
	return true;
}

bool why_find_queue(const struct why_numbers *n, struct draft *d)
{
	const struct why_object *o = object_of(n, true);
	const struct why_place *p = NULL;

	for (size_t i = 0; i < n->place_count && !p; i++)
		if (n->places[i].kind == STACK_SEND)
			p = &n->places[i];
	if (!o || !p || o->waiters < QUEUE_SENDERS ||
	    (p->whole < QUEUE_SENDERS && p->length < QUEUE_SECONDS))
		return false;
	strbuf_adds(&d->sentence, "Slow: a queue is full: ");
	why_add_goroutines(&d->sentence, o->waiters);
	strbuf_addf(&d->sentence, " wait to send to %s, which has %" PRIu64 " of %" PRIu64, o->name,
		    o->length, o->capacity);
	strbuf_adds(&d->evidence, "they wait in ");
	add_place(&d->evidence, p);
	if (p->goroutines > 0) {
		strbuf_adds(&d->evidence, ", each time for ");
		why_add_seconds(&d->evidence, p->length);
	}
	strbuf_adds(&d->evidence, "; what receives from it is too slow");
	draft_command(d, n, "waits");
	return true;
}

/* ---- leaking ---- */

/* It grows from the first part to the last, and not less in the second half. */
static bool grows_steadily(const struct why_creator *c)
{
	double half = c->alive[WHY_PARTS / 2 - 1], end = c->alive[WHY_PARTS - 1];
	unsigned int falls = 0;

	for (size_t i = 1; i < WHY_PARTS; i++)
		falls += c->alive[i] < c->alive[i - 1];
	return !falls && end - half >= 0.25 * (half - c->first);
}

static bool leaks(const struct why_creator *c)
{
	double growth = c->alive[WHY_PARTS - 1] - c->first;

	return growth >= LEAK_COUNT && growth >= LEAK_PART * c->first && grows_steadily(c) &&
	       c->ended <= LEAK_ENDED * c->first && c->on_network < 0.5 * growth;
}

bool why_find_leak(const struct why_numbers *n, struct draft *d)
{
	const struct why_creator *most = NULL;
	double growth = 0;

	for (size_t i = 0; i < n->creator_count; i++) {
		const struct why_creator *c = &n->creators[i];

		if (leaks(c) && c->alive[WHY_PARTS - 1] - c->first > growth) {
			growth = c->alive[WHY_PARTS - 1] - c->first;
			most = c;
		}
	}
	if (!most || n->seconds <= 0)
		return false;
	strbuf_adds(&d->sentence, "Leaking: goroutines that ");
	why_add_function(&d->sentence, most->function);
	strbuf_adds(&d->sentence, " creates grow from ");
	why_add_amount(&d->sentence, most->first);
	strbuf_adds(&d->sentence, " to ");
	why_add_amount(&d->sentence, most->alive[WHY_PARTS - 1]);
	strbuf_adds(&d->sentence, ", and hardly any ends");
	why_add_amount(&d->evidence, growth / n->seconds);
	strbuf_adds(&d->evidence, " more each second");
	if (most->place && *most->place) {
		strbuf_adds(&d->evidence, "; ");
		why_add_amount(&d->evidence, most->at_place);
		strbuf_adds(&d->evidence, " of them wait in ");
		why_add_function(&d->evidence, most->place);
		strbuf_addf(&d->evidence, " [%s]", most->wait);
	}
	strbuf_addf(&d->evidence, "; created at %s:%d", base_name(most->file), most->line);
	strbuf_addf(&d->next, "gospect dump %s --group", n->target);
	return true;
}

bool why_find_crowd(const struct why_numbers *n, struct draft *d)
{
	const struct why_creator *most = NULL;

	for (size_t i = 0; i < n->creator_count; i++) {
		const struct why_creator *c = &n->creators[i];

		if (c->at_place >= CROWD_COUNT && c->oldest >= CROWD_SECONDS && !c->is_work &&
		    (!most || c->at_place > most->at_place))
			most = c;
	}
	if (!most)
		return false;
	d->severity = WHY_MINOR;
	strbuf_adds(&d->sentence, "Perhaps leaking: ");
	why_add_goroutines(&d->sentence, most->at_place);
	strbuf_adds(&d->sentence, " that ");
	why_add_function(&d->sentence, most->function);
	strbuf_adds(&d->sentence, " created wait at one place, one for ");
	why_add_seconds(&d->sentence, most->oldest);
	strbuf_adds(&d->evidence, "they wait in ");
	why_add_function(&d->evidence, most->place);
	strbuf_addf(&d->evidence, " [%s]; created at %s:%d", most->wait, base_name(most->file),
		    most->line);
	strbuf_addf(&d->next, "gospect dump %s --group", n->target);
	return true;
}
