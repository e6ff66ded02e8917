/*
 * What the goroutines of the served processes did in the last hour, in bounded memory: one beat for
 * each 10 seconds. A worker for each process sends them. Another one lists the processes now and
 * then: the first SERVE_HISTORY_MOST have a history.
 */
#ifndef SERVE_SERVE_HISTORY_H
#define SERVE_SERVE_HISTORY_H

#include "base/strbuf.h"
#include "serve/serve_answer.h"
#include "serve/serve_store.h"

#define SERVE_HISTORY_BEATS 360
#define SERVE_HISTORY_SECONDS 3600

/* What a worker sends that is no answer to a client. */
struct serve_feed {
	int leash; /* -1: there is no worker */
	struct serve_stream stream;
	uint8_t bytes[sizeof(struct serve_beat)]; /* of the item that is being read */
	size_t size;
	uint64_t next_ns;  /* when a worker may be started (again) */
	uint64_t heard_ns; /* when it began, or sent an item */
};

struct serve_past {
	int32_t pid; /* 0: none */
	uint64_t start;
	char name[64];
	bool is_alive;  /* the last list has it */
	uint64_t round; /* of the last list that has it */
	struct serve_feed feed;
	struct serve_beat beats[SERVE_HISTORY_BEATS]; /* a ring */
	size_t count, next;
	struct serve_beat total; /* since the start */
};

struct serve_history {
	struct serve_past *pasts; /* SERVE_HISTORY_MOST */
	struct serve_feed list;
	uint64_t list_ns; /* between two lists */
	uint64_t round;
	int epoll;
};

/* `is_fixed`: the processes were given. False: no memory. */
bool serve_history_init(struct serve_history *h, bool is_fixed, int epoll);
/* Starts the workers that are missing, and others for those that say nothing any more, which the
 * keeper ends. False: the keeper is gone. */
bool serve_history_tend(struct serve_history *h, int keeper);
/* Whether an event's pointer is that of a feed; then it was read. */
bool serve_history_event(struct serve_history *h, const void *what);

/* Take what workers sent; for tests. */
void serve_history_list(struct serve_history *h, const struct serve_listed *listed);
void serve_past_add(struct serve_past *p, const struct serve_beat *beat);

const struct serve_past *serve_history_find(const struct serve_history *h, int32_t pid);
/* The i-th beat, the oldest first. */
const struct serve_beat *serve_past_beat(const struct serve_past *p, size_t i);
/* How many goroutines there were, on average. */
double serve_beat_goroutines(const struct serve_beat *b);

/* Lines of /metrics. */
void serve_history_metrics(const struct serve_history *h, struct strbuf *page);

#endif
