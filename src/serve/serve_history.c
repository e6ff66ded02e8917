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
/* One that says nothing for so long is stuck. It speaks every 10 s. */
#define SILENCE_NS 60000000000ull

static const char *const state_names[] = {"running", "runnable", "syscall", "waiting"};

bool serve_history_init(struct serve_history *h, const int32_t *pids, size_t count, int epoll)
{
	h->count = count < SERVE_HISTORY_MOST ? count : SERVE_HISTORY_MOST;
	h->epoll = epoll;
	h->pasts = calloc(h->count + 1, sizeof(*h->pasts));
	for (size_t i = 0; h->pasts && i < h->count; i++)
		h->pasts[i] =
			(struct serve_past){.pid = pids[i], .leash = -1, .stream = {.fd = -1}};
	return h->pasts;
}

/* ---- workers ---- */

static bool start(struct serve_history *h, struct serve_past *p, int keeper)
{
	const struct serve_request request = {.kind = SERVE_WATCH, .pid = p->pid};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
	struct serve_answer answer;
	int fds[SERVE_FDS];

	p->retry_ns = clock_now() + RETRY_NS;
	if (!serve_link_ask(keeper, &request, NULL, &answer, fds))
		return false;
	if (answer.status)
		return true;
	p->stream = (struct serve_stream){.fd = fds[SERVE_FD_DATA]};
	p->leash = fds[SERVE_FD_LEASH];
	p->size = 0;
	p->heard_ns = clock_now();
	epoll_ctl(h->epoll, EPOLL_CTL_ADD, p->stream.fd, &event);
	return true;
}

static void stop(struct serve_past *p)
{
	close(p->leash);
	close(p->stream.fd);
	p->leash = p->stream.fd = -1;
}

bool serve_history_tend(struct serve_history *h, int keeper)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->pasts[i].leash >= 0 && clock_now() > h->pasts[i].heard_ns + SILENCE_NS)
			stop(&h->pasts[i]);
	for (size_t i = 0; i < h->count; i++)
		if (h->pasts[i].leash < 0 && clock_now() > h->pasts[i].retry_ns &&
		    !start(h, &h->pasts[i], keeper))
			return false;
	return true;
}

/* The worker is hostile: its numbers may be any. */
static double number(double value, double most)
{
	return isfinite(value) && value > 0 ? (value < most ? value : most) : 0;
}

void serve_past_add(struct serve_past *p, const struct serve_beat *beat)
{
	struct serve_beat b = {.seconds = number(beat->seconds, 1e4)};

	for (size_t i = 0; i < ARRAY_SIZE(b.states); i++) {
		b.states[i] = number(beat->states[i], 1e12);
		p->total.states[i] += b.states[i];
	}
	b.cpu = number(beat->cpu, 1e9);
	b.locks = number(beat->locks, 1e12);
	p->total.cpu += b.cpu;
	p->total.locks += b.locks;
	p->total.seconds += b.seconds;
	p->beats[p->next] = b;
	p->next = (p->next + 1) % SERVE_HISTORY_BEATS;
	p->count += p->count < SERVE_HISTORY_BEATS;
}

static enum serve_read take(struct serve_past *p)
{
	enum serve_read done = serve_stream_head(&p->stream);
	struct serve_beat beat;
	size_t n = 0;

	if (done != SERVE_READ_SOME)
		return done;
	done = serve_stream_body(&p->stream, p->bytes + p->size, sizeof(p->bytes) - p->size, &n);
	if (done != SERVE_READ_SOME)
		return done;
	p->size += n;
	if (p->size < sizeof(p->bytes))
		return SERVE_READ_SOME;
	memcpy(&beat, p->bytes, sizeof(beat));
	p->size = 0;
	p->heard_ns = clock_now();
	serve_past_add(p, &beat);
	return SERVE_READ_SOME;
}

bool serve_history_event(struct serve_history *h, const void *what)
{
	struct serve_past *p = NULL;
	enum serve_read done;

	for (size_t i = 0; i < h->count; i++)
		if (what == &h->pasts[i])
			p = &h->pasts[i];
	if (!p || p->leash < 0)
		return p;
	do
		done = take(p);
	while (done == SERVE_READ_SOME);
	if (done != SERVE_READ_LATER || p->stream.head.status > 200)
		stop(p);
	return true;
}

const struct serve_past *serve_history_find(const struct serve_history *h, int32_t pid)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->pasts[i].pid == pid)
			return &h->pasts[i];
	return NULL;
}

/* The i-th, the oldest first. */
static const struct serve_beat *beat_at(const struct serve_past *p, size_t i)
{
	size_t first = p->count < SERVE_HISTORY_BEATS ? 0 : p->next;

	return &p->beats[(first + i) % SERVE_HISTORY_BEATS];
}

/* ---- metrics ---- */

static void add_states(const struct serve_history *h, struct strbuf *page)
{
	strbuf_adds(page,
		    "# HELP gospect_goroutine_seconds_total Time of all goroutines together, by "
		    "state; that of runnable ones is scheduling latency.\n"
		    "# TYPE gospect_goroutine_seconds_total counter\n");
	for (size_t i = 0; i < h->count; i++)
		for (size_t k = 0; h->pasts[i].count && k < ARRAY_SIZE(state_names); k++)
			strbuf_addf(page,
				    "gospect_goroutine_seconds_total{pid=\"%d\",state=\"%s\"} "
				    "%.3f\n",
				    h->pasts[i].pid, state_names[k], h->pasts[i].total.states[k]);
}

static void add_total(const struct serve_history *h, struct strbuf *page, const char *name,
		      const char *help, size_t offset)
{
	strbuf_addf(page, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
	for (size_t i = 0; i < h->count; i++)
		if (h->pasts[i].count)
			strbuf_addf(page, "%s{pid=\"%d\"} %.3f\n", name, h->pasts[i].pid,
				    *(const double *)((const char *)&h->pasts[i].total + offset));
}

void serve_history_metrics(const struct serve_history *h, struct strbuf *page)
{
	if (!h->count)
		return;
	add_states(h, page);
	add_total(h, page, "gospect_cpu_seconds_total", "CPU time of goroutines.",
		  offsetof(struct serve_beat, cpu));
	add_total(h, page, "gospect_lock_wait_seconds_total",
		  "Time that goroutines waited for locks of sync.",
		  offsetof(struct serve_beat, locks));
	add_total(h, page, "gospect_observed_seconds_total", "Time that the counters above cover.",
		  offsetof(struct serve_beat, seconds));
}

/* ---- the picture ---- */

#define WIDTH 1080
#define HEIGHT 240

static double goroutines(const struct serve_beat *b, size_t states)
{
	double sum = 0;

	for (size_t i = 0; i < states; i++)
		sum += b->states[i];
	return b->seconds > 0 ? sum / b->seconds : 0;
}

static double highest(const struct serve_past *p)
{
	double most = 1;

	for (size_t i = 0; i < p->count; i++) {
		double all = goroutines(beat_at(p, i), ARRAY_SIZE(state_names));

		most = all > most ? all : most;
	}
	return most;
}

/* The area from the axis to the sum of the first states; drawn from the last state to the first. */
static void add_area(struct strbuf *page, const struct serve_past *p, size_t states, double most)
{
	static const char *const colours[] = {"#f97d1c", "#f7d83c", "#5b9bd5", "#c9ced6"};
	double step = (double)WIDTH / SERVE_HISTORY_BEATS;
	double x = WIDTH - step * (double)p->count;

	strbuf_addf(page, "<path fill=\"%s\" d=\"M%.1f %d", colours[states - 1], x, HEIGHT);
	for (size_t i = 0; i < p->count; i++, x += step) {
		double y = HEIGHT - HEIGHT * goroutines(beat_at(p, i), states) / most;

		strbuf_addf(page, "V%.1fH%.1f", y, x + step);
	}
	strbuf_addf(page, "V%dZ\"/>\n", HEIGHT);
}

void serve_history_page(const struct serve_past *p, struct strbuf *page)
{
	double most = highest(p);
	const struct serve_beat *last = p->count ? beat_at(p, p->count - 1) : NULL;

	serve_page_begin(page, "The last hour", 10);
	strbuf_addf(page,
		    "<p>Process %d: goroutines by state; %.0f at most.</p>\n"
		    "<svg viewBox=\"0 0 %d %d\" width=\"100%%\" role=\"img\">\n"
		    "<rect width=\"%d\" height=\"%d\" fill=\"#8882\"/>\n",
		    p->pid, most, WIDTH, HEIGHT, WIDTH, HEIGHT);
	for (size_t states = ARRAY_SIZE(state_names); p->count && states; states--)
		add_area(page, p, states, most);
	strbuf_adds(page, "</svg>\n<table>\n<tr><th>State</th><th class=\"n\">Now</th></tr>\n");
	for (size_t i = 0; last && i < ARRAY_SIZE(state_names); i++)
		strbuf_addf(page, "<tr><td>%s</td><td class=\"n\">%.2f</td></tr>\n", state_names[i],
			    last->seconds > 0 ? last->states[i] / last->seconds : 0);
	strbuf_adds(page, "</table>\n<p><a href=\"debug/pprof/\">profiles</a> "
			  "<a href=\"wall?seconds=5&amp;format=html\">wall</a> "
			  "<a href=\"waits?format=text\">waits</a></p>\n");
	serve_page_end(page);
}
