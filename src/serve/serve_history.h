/* What the goroutines of the served processes did in the last hour, in bounded memory: one beat for
 * each 10 seconds. A worker for each process sends them. */
#ifndef SERVE_SERVE_HISTORY_H
#define SERVE_SERVE_HISTORY_H

#include "base/strbuf.h"
#include "serve/serve_answer.h"

#define SERVE_HISTORY_BEATS 360
/* Processes that have a history. */
#define SERVE_HISTORY_MOST 16

struct serve_past {
	int32_t pid;
	int leash; /* of its worker; -1: none */
	struct serve_stream stream;
	uint8_t bytes[sizeof(struct serve_beat)]; /* of the beat that is being read */
	size_t size;
	uint64_t retry_ns;                            /* when a worker may be started again */
	uint64_t heard_ns;                            /* when it began, or sent a beat */
	struct serve_beat beats[SERVE_HISTORY_BEATS]; /* a ring */
	size_t count, next;
	struct serve_beat total; /* since the start */
};

struct serve_history {
	struct serve_past *pasts;
	size_t count;
	int epoll;
};

/* For these processes; those beyond SERVE_HISTORY_MOST are left out. False: no memory. */
bool serve_history_init(struct serve_history *h, const int32_t *pids, size_t count, int epoll);
/* Starts the workers that are missing, and others for those that say nothing any more, which the
 * keeper ends. False: the keeper is gone. */
bool serve_history_tend(struct serve_history *h, int keeper);
/* Whether an event's pointer is that of a past; then it was read. */
bool serve_history_event(struct serve_history *h, const void *what);
/* Takes what a worker sent; for tests. */
void serve_past_add(struct serve_past *p, const struct serve_beat *beat);

const struct serve_past *serve_history_find(const struct serve_history *h, int32_t pid);
/* Lines of /metrics. */
void serve_history_metrics(const struct serve_history *h, struct strbuf *page);
/* A page with the last hour as a picture. */
void serve_history_page(const struct serve_past *p, struct strbuf *page);

#endif
