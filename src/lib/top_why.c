#include "lib/top_why.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "profile/stands_out.h"

/* How often the sentence is renewed, and at least how often if that costs too much. */
#define INTERVAL_NS 3000000000ull
#define MOST_INTERVAL_NS 60000000000ull

static struct error *find(struct top_why *w, const struct top_source *s)
{
	_cleanup_profile_handle_ struct gospect_profile *p = NULL;
	_cleanup_stands_out_ struct stands_out out = {0};
	struct error *err = top_profile_make(s, &p);

	if (!err)
		err = stands_out_find(p->profile, p->symbols, &out);
	if (err)
		return err;
	snprintf(w->text, sizeof(w->text), "%s", out.count ? out.sentences[0].text : "");
	w->known = true;
	return NULL;
}

struct error *top_why_find(struct top_why *w, const struct top_source *s, uint64_t now,
			   double share)
{
	uint64_t cpu = clock_cpu(), pause;
	struct error *err;

	if (now < w->next_at || !s->model->interval_count)
		return NULL;
	err = find(w, s);
	pause = (clock_cpu() - cpu) / share;
	w->next_at = now + (pause < INTERVAL_NS        ? INTERVAL_NS
			    : pause > MOST_INTERVAL_NS ? MOST_INTERVAL_NS
						       : pause);
	return err;
}

/* ---- requests ---- */

void request_watch_release(struct request_watch *w)
{
	request_rate_release(&w->rate);
}

/* A goroutine that no longer waits for a request is working on one, even before it is in its
 * handler. */
static enum request_place place_in(const struct top_stack_names *stack,
				   enum goroutine_status status)
{
	bool waits = top_state_of(status) == TOP_WAITING;

	return stack->request == REQUEST_BETWEEN && !waits ? REQUEST_UNKNOWN : stack->request;
}

static enum request_place place_of(struct top_names *names, const struct goroutine_record *r)
{
	struct top_stack_names stack;

	if (!goroutine_is_alive(r) || error_dropped(names->stack(names, r->stack, &stack)))
		return REQUEST_NOT;
	return place_in(&stack, goroutine_status(r));
}

void request_watch_moved(struct request_watch *w, struct top_names *names,
			 const struct goroutine_record *before,
			 const struct goroutine_record *after, uint64_t now)
{
	enum request_place was = place_of(names, before), is = place_of(names, after);

	if (goroutine_is_alive(before) &&
	    (before->goid != after->goid || !goroutine_is_alive(after))) {
		request_rate_ended(&w->rate, before->goid, was, now);
		was = REQUEST_NOT;
	}
	if (goroutine_is_alive(after))
		request_rate_moved(&w->rate, after->goid, was, is, now);
}

/* The average number of idle connections in this interval. */
static struct error *count_idle(const struct top_interval *interval, const struct top_model *m,
				struct top_names *names, double *ret)
{
	struct error *err = NULL;
	uint64_t ns = 0;

	for (size_t i = 0; !err && i < interval->count; i++) {
		const struct top_key *key = &m->keys[interval->items[i].key];
		struct top_stack_names stack;

		err = names->stack(names, key->stack, &stack);
		if (!err && place_in(&stack, key->status) == REQUEST_BETWEEN)
			ns += interval->items[i].total.ns;
	}
	*ret = (double)ns / interval->ns;
	return err;
}

struct error *request_watch_interval(struct request_watch *w, const struct top_model *m,
				     struct top_names *names, struct wall_looks looks, uint64_t now)
{
	const struct top_interval *interval = top_model_interval(m, 0);
	struct request_looks since = {.count = looks.count - w->looks.count,
				      .squares = looks.squares - w->looks.squares};
	struct error *err = NULL;

	if (!interval || !(since.count > 0))
		return NULL;
	since.ns = interval->ns;
	if (w->rate.seen)
		err = count_idle(interval, m, names, &since.idle);
	request_rate_second(&w->rate, &since, now);
	w->looks = looks;
	return err;
}

void request_watch_skip(struct request_watch *w, struct wall_looks looks, uint64_t now)
{
	request_rate_skip(&w->rate, now);
	w->looks = looks;
}

void request_watch_count(struct request_watch *w, const struct top_model *m, uint64_t now)
{
	w->shown = m->interval_count && w->rate.second_count &&
		   request_rate_get(&w->rate, m->window_ns, now, &w->numbers);
}
