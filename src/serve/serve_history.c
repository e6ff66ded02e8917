#include "serve/serve_history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "serve/serve_link.h"
#include "serve/serve_page.h"

/* A worker that has ended is started again after this time. */
#define RETRY_NS 10000000000ull
/* One that says nothing for so long is stuck. It speaks every 10 s, or lists the processes within
 * that time. */
#define SILENCE_NS 60000000000ull
/* Processes come and go: each look at all of them costs a worker for each. */
#define LIST_NS 60000000000ull
#define LIST_FIXED_NS 600000000000ull
/* A beat's own time may differ so much from this process's clock. */
#define LATE_SECONDS 30

static const char *const state_names[] = {"running", "runnable", "syscall", "waiting"};

bool serve_history_init(struct serve_history *h, bool is_fixed, int epoll)
{
	*h = (struct serve_history){.list.leash = -1,
				    .list.stream.fd = -1,
				    .list_ns = is_fixed ? LIST_FIXED_NS : LIST_NS,
				    .epoll = epoll};
	h->pasts = calloc(SERVE_HISTORY_MOST, sizeof(*h->pasts));
	for (size_t i = 0; h->pasts && i < SERVE_HISTORY_MOST; i++)
		h->pasts[i].feed = (struct serve_feed){.leash = -1, .stream.fd = -1};
	return h->pasts;
}

/* ---- workers ---- */

static bool start(struct serve_history *h, struct serve_feed *feed, uint32_t kind, int32_t pid,
		  int keeper)
{
	const struct serve_request request = {.kind = kind, .pid = pid};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = feed};
	struct serve_answer answer;
	int fds[SERVE_FDS];

	feed->next_ns = clock_now() + RETRY_NS;
	if (!serve_link_ask(keeper, &request, NULL, &answer, fds))
		return false;
	if (answer.status)
		return true;
	feed->stream = (struct serve_stream){.fd = fds[SERVE_FD_DATA]};
	feed->leash = fds[SERVE_FD_LEASH];
	feed->size = 0;
	feed->heard_ns = clock_now();
	epoll_ctl(h->epoll, EPOLL_CTL_ADD, feed->stream.fd, &event);
	return true;
}

static void stop(struct serve_feed *feed)
{
	if (feed->leash < 0)
		return;
	close(feed->leash);
	close(feed->stream.fd);
	feed->leash = feed->stream.fd = -1;
}

static void stop_if_silent(struct serve_feed *feed, uint64_t now)
{
	if (feed->leash >= 0 && now > feed->heard_ns + SILENCE_NS)
		stop(feed);
}

bool serve_history_tend(struct serve_history *h, int keeper)
{
	uint64_t now = clock_now();

	stop_if_silent(&h->list, now);
	if (h->list.leash < 0 && now > h->list.next_ns) {
		h->round++;
		if (!start(h, &h->list, SERVE_LIST, 0, keeper))
			return false;
		h->list.next_ns = now + h->list_ns;
	}
	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++) {
		struct serve_past *p = &h->pasts[i];

		stop_if_silent(&p->feed, now);
		if (p->is_alive && p->feed.leash < 0 && now > p->feed.next_ns &&
		    !start(h, &p->feed, SERVE_WATCH, p->pid, keeper))
			return false;
	}
	return true;
}

/* ---- what they send ---- */

/* The worker is hostile: its numbers may be any. */
static double number(double value, double most)
{
	return isfinite(value) && value > 0 ? (value < most ? value : most) : 0;
}

static double seconds_now(void)
{
	return (double)clock_read(CLOCK_REALTIME) / 1e9;
}

void serve_past_add(struct serve_past *p, const struct serve_beat *beat)
{
	double now = seconds_now();
	struct serve_beat b = {.seconds = number(beat->seconds, 1e4),
			       .cpu = number(beat->cpu, 1e9),
			       .locks = number(beat->locks, 1e12),
			       .end = number(beat->end, 1e12),
			       .resident = number(beat->resident, 1e18),
			       .has_requests = beat->has_requests > 0,
			       .requests = number(beat->requests, 1e12),
			       .progress = number(beat->progress, 1e12),
			       .p50 = number(beat->p50, 1e9),
			       .p99 = number(beat->p99, 1e9)};

	if (fabs(b.end - now) > LATE_SECONDS)
		b.end = now;
	for (size_t i = 0; i < ARRAY_SIZE(b.states); i++) {
		b.states[i] = number(beat->states[i], 1e12);
		p->total.states[i] += b.states[i];
	}
	p->total.cpu += b.cpu;
	p->total.locks += b.locks;
	p->total.seconds += b.seconds;
	p->beats[p->next] = b;
	p->next = (p->next + 1) % SERVE_HISTORY_BEATS;
	p->count += p->count < SERVE_HISTORY_BEATS;
}

/* The slot of a process that is listed for the first time: a free one, or that of one that has
 * ended. */
static struct serve_past *slot_for(const struct serve_history *h, int32_t pid)
{
	struct serve_past *slot = NULL;

	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++) {
		struct serve_past *p = &h->pasts[i];

		if (p->pid == pid)
			return p;
		if (!slot || (slot->pid && !p->pid))
			slot = p->is_alive ? slot : p;
	}
	return slot;
}

void serve_history_list(struct serve_history *h, const struct serve_listed *listed)
{
	struct serve_past *p = slot_for(h, listed->pid);

	if (listed->pid <= 0 || !p)
		return;
	if (p->pid != listed->pid || p->start != listed->start) {
		stop(&p->feed);
		*p = (struct serve_past){.pid = listed->pid, .start = listed->start};
		p->feed = (struct serve_feed){.leash = -1, .stream.fd = -1};
	}
	memcpy(p->name, listed->name, sizeof(p->name));
	p->name[sizeof(p->name) - 1] = '\0';
	p->is_alive = true;
	p->round = h->round;
}

/* Those that the list lacks have ended. Their past stays. */
static void end_list(struct serve_history *h, bool is_complete)
{
	for (size_t i = 0; is_complete && i < SERVE_HISTORY_MOST; i++)
		h->pasts[i].is_alive &= h->pasts[i].round == h->round;
	stop(&h->list);
}

/* SERVE_READ_SOME: feed->size is `size` once the item is whole. */
static enum serve_read take(struct serve_feed *feed, size_t size)
{
	enum serve_read done = serve_stream_head(&feed->stream);
	size_t n = 0;

	if (done == SERVE_READ_SOME && feed->stream.head.status > 200)
		return SERVE_READ_BROKEN;
	if (done == SERVE_READ_SOME)
		done = serve_stream_body(&feed->stream, feed->bytes + feed->size, size - feed->size,
					 &n);
	feed->size += n;
	return done;
}

static void read_list(struct serve_history *h)
{
	struct serve_listed listed;
	enum serve_read done;

	while ((done = take(&h->list, sizeof(listed))) == SERVE_READ_SOME) {
		if (h->list.size < sizeof(listed))
			continue;
		memcpy(&listed, h->list.bytes, sizeof(listed));
		h->list.size = 0;
		h->list.heard_ns = clock_now();
		serve_history_list(h, &listed);
	}
	if (done != SERVE_READ_LATER)
		end_list(h, done == SERVE_READ_END);
}

static void read_beats(struct serve_past *p)
{
	struct serve_beat beat;
	enum serve_read done;

	while ((done = take(&p->feed, sizeof(beat))) == SERVE_READ_SOME) {
		if (p->feed.size < sizeof(beat))
			continue;
		memcpy(&beat, p->feed.bytes, sizeof(beat));
		p->feed.size = 0;
		p->feed.heard_ns = clock_now();
		serve_past_add(p, &beat);
	}
	if (done != SERVE_READ_LATER)
		stop(&p->feed);
}

bool serve_history_event(struct serve_history *h, const void *what)
{
	if (what == &h->list) {
		if (h->list.leash >= 0)
			read_list(h);
		return true;
	}
	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++) {
		if (what != &h->pasts[i].feed)
			continue;
		if (h->pasts[i].feed.leash >= 0)
			read_beats(&h->pasts[i]);
		return true;
	}
	return false;
}

/* ---- what is known ---- */

const struct serve_past *serve_history_find(const struct serve_history *h, int32_t pid)
{
	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++)
		if (pid && h->pasts[i].pid == pid)
			return &h->pasts[i];
	return NULL;
}

const struct serve_beat *serve_past_beat(const struct serve_past *p, size_t i)
{
	size_t first = p->count < SERVE_HISTORY_BEATS ? 0 : p->next;

	return &p->beats[(first + i) % SERVE_HISTORY_BEATS];
}

double serve_beat_goroutines(const struct serve_beat *b)
{
	double sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(b->states); i++)
		sum += b->states[i];
	return b->seconds > 0 ? sum / b->seconds : 0;
}

/* ---- metrics ---- */

/* One that has ended is no series any more. */
static bool has_metrics(const struct serve_past *p)
{
	return p->is_alive && p->count;
}

static void add_states(const struct serve_history *h, struct strbuf *page)
{
	strbuf_adds(page,
		    "# HELP gospect_goroutine_seconds_total Time of all goroutines together, by "
		    "state; that of runnable ones is scheduling latency.\n"
		    "# TYPE gospect_goroutine_seconds_total counter\n");
	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++)
		for (size_t k = 0; has_metrics(&h->pasts[i]) && k < ARRAY_SIZE(state_names); k++)
			strbuf_addf(page,
				    "gospect_goroutine_seconds_total{pid=\"%d\",state=\"%s\"} "
				    "%.3f\n",
				    h->pasts[i].pid, state_names[k], h->pasts[i].total.states[k]);
}

static void add_total(const struct serve_history *h, struct strbuf *page, const char *name,
		      const char *help, size_t offset)
{
	strbuf_addf(page, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++)
		if (has_metrics(&h->pasts[i]))
			strbuf_addf(page, "%s{pid=\"%d\"} %.3f\n", name, h->pasts[i].pid,
				    *(const double *)((const char *)&h->pasts[i].total + offset));
}

/* Of the last beat. */
static void add_gauge(const struct serve_history *h, struct strbuf *page, const char *name,
		      const char *help, size_t offset, bool of_requests)
{
	strbuf_addf(page, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
	for (size_t i = 0; i < SERVE_HISTORY_MOST; i++) {
		const struct serve_past *p = &h->pasts[i];
		const struct serve_beat *last =
			has_metrics(p) ? serve_past_beat(p, p->count - 1) : NULL;

		if (last && (!of_requests || last->has_requests > 0))
			strbuf_addf(page, "%s{pid=\"%d\"} %.3f\n", name, p->pid,
				    *(const double *)((const char *)last + offset));
	}
}

void serve_history_metrics(const struct serve_history *h, struct strbuf *page)
{
	add_states(h, page);
	add_total(h, page, "gospect_cpu_seconds_total", "CPU time of goroutines.",
		  offsetof(struct serve_beat, cpu));
	add_total(h, page, "gospect_lock_wait_seconds_total",
		  "Time that goroutines waited for locks of sync.",
		  offsetof(struct serve_beat, locks));
	add_total(h, page, "gospect_observed_seconds_total", "Time that the counters above cover.",
		  offsetof(struct serve_beat, seconds));
	add_gauge(h, page, "gospect_resident_bytes", "Resident memory.",
		  offsetof(struct serve_beat, resident), false);
	add_gauge(h, page, "gospect_requests_per_second",
		  "Requests of net/http and gRPC, estimated from samples.",
		  offsetof(struct serve_beat, requests), true);
	add_gauge(h, page, "gospect_requests_in_progress", "Requests in progress, on average.",
		  offsetof(struct serve_beat, progress), true);
}
