#include "push/delivery.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/printable.h"
#include "base/regular_file.h"

#define SECOND_NS 1000000000ull
/* Starting it loads libraries and resolves a name. */
#define START_MS 60000
/* How much longer than a request may take its answer may take. */
#define PATIENCE_NS (30 * SECOND_NS)
/* The longest wait between two tries. */
#define MOST_WAIT 60.0
/* Of the sender, with one file. */
#define MOST_CRASHES 3
#define SAY_EVERY_NS (60 * SECOND_NS)
/* A failure that goes on is said again after so long. */
#define TELL_EVERY_NS (600 * SECOND_NS)

static void announce(const struct delivery *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void announce(const struct delivery *d, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	d->o->say(d->o->arg, line);
}

/* ---- the sender ---- */

static struct error *must_check start(struct delivery *d)
{
	struct sender_answer ready;
	struct pollfd look;
	struct error *err = sender_start(&d->o->http, &d->sender);

	if (err)
		return err;
	look = (struct pollfd){.fd = d->sender.socket, .events = POLLIN};
	if (poll(&look, 1, START_MS) <= 0 || !sender_answer(&d->sender, &ready) ||
	    ready.outcome != SENDER_READY)
		err = error_format(ERROR_FAILED, "the process that sends profiles does not start");
	else if (*ready.text)
		err = error_format(ERROR_FAILED, "%s", ready.text);
	if (err)
		sender_end(&d->sender);
	return err;
}

struct error *delivery_start(const struct push_options *o, struct spool *spool,
			     struct delivery *ret)
{
	*ret = (struct delivery){.o = o, .spool = spool, .sender.socket = -1};
	return start(ret);
}

void delivery_end(struct delivery *d)
{
	sender_end(&d->sender);
}

/* ---- the token ---- */

/* Read for each request, because tokens are renewed in their files. */
static struct error *must_check read_token(const char *path, char ret[SENDER_TOKEN])
{
	_cleanup_close_ int fd = regular_file_open(path);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, SENDER_TOKEN - 1);

	if (n < 0)
		return error_errno(ERROR_FAILED, errno, "cannot read the token in %s", path);
	while (n > 0 && isspace((unsigned char)ret[n - 1]))
		n--;
	ret[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)ret[i]))
			return error_format(ERROR_FAILED, "%s is not a token: it has spaces", path);
	return n ? NULL : error_format(ERROR_FAILED, "the token file %s is empty", path);
}

/* ---- when ---- */

/* 0.5 to 1 of 1, 2, 4 ... 60 s, so that many gospects do not come back at one moment. */
static double wait_after(uint32_t failures, double asked)
{
	double longest = fmin(MOST_WAIT, ldexp(1, failures < 10 ? failures - 1 : 9));
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = 0;
	return fmax(asked, longest * (0.5 + 0.5 * random / UINT32_MAX));
}

static void fail(struct delivery *d, double retry_after, const char *why, const char *remedy)
{
	uint64_t now = clock_now();

	d->failures++;
	d->next_ns = now + wait_after(d->failures, retry_after) * 1e9;
	if (d->told_ns && now - d->told_ns < TELL_EVERY_NS)
		return;
	d->told_ns = now;
	announce(d, "cannot push to %s: %s; %s%zu requests wait in the spool %s", d->o->where, why,
		 remedy, spool_count(d->spool), d->spool->path);
}

static void sent(struct delivery *d)
{
	d->sent++;
	if (d->told_ns)
		announce(d, "%s accepts profiles again; %zu requests wait in the spool",
			 d->o->where, spool_count(d->spool));
	d->told_ns = 0;
	d->failures = 0;
}

/* ---- requests ---- */

static void ask(struct delivery *d)
{
	const struct spool_file *file = spool_oldest(d->spool);
	char token[SENDER_TOKEN] = "";
	struct error *err = NULL;
	uint64_t serial = file->serial;
	size_t size;
	int fd;

	if (d->o->token_file)
		err = read_token(d->o->token_file, token);
	if (err) {
		fail(d, 0, err->message, "");
		error_destroy(err);
		return;
	}
	fd = spool_open_oldest(d->spool, &size);
	if (fd < 0)
		return; /* it is damaged: the next one is tried at once */
	if (sender_ask(&d->sender, serial, fd, size, token)) {
		d->under_way = serial;
		d->asked_ns = clock_now();
	}
	close(fd);
	explicit_bzero(token, sizeof(token));
}

/* A file with which the sender ends again and again is dropped. */
static void replace_sender(struct delivery *d, const char *why)
{
	struct error *err;

	sender_end(&d->sender);
	if (d->under_way && ++d->crashes >= MOST_CRASHES) {
		spool_remove(d->spool, d->under_way);
		d->refused++;
		d->crashes = 0;
	}
	d->under_way = 0;
	fail(d, 0, why, "");
	err = start(d);
	if (!err)
		return;
	announce(d, "%s", err->message);
	error_destroy(err);
}

static bool is_late(const struct delivery *d)
{
	return d->under_way && clock_now() - d->asked_ns > d->o->http.timeout * 1e9 + PATIENCE_NS;
}

void delivery_go_on(struct delivery *d)
{
	if (is_late(d))
		replace_sender(d, "the process that sends profiles hangs");
	if (clock_now() < d->next_ns)
		return;
	if (d->sender.socket < 0)
		replace_sender(d, "the process that sends profiles has ended");
	while (!d->under_way && d->sender.socket >= 0 && clock_now() >= d->next_ns &&
	       spool_oldest(d->spool)) {
		size_t before = spool_count(d->spool);

		ask(d);
		if (!d->under_way && spool_count(d->spool) == before)
			break;
	}
}

static const char *remedy_of(const struct sender_answer *a)
{
	switch (a->status) {
	case 401:
	case 403:
	case 407:
		return "check --token-file; ";
	case 404:
	case 405:
		return "check --to and the URL; ";
	}
	return "";
}

static void words_of(const struct sender_answer *a, struct strbuf *ret)
{
	if (a->status)
		strbuf_addf(ret, "it answers HTTP %d%s", a->status, *a->text ? ": " : "");
	printable_adds(ret, a->text);
}

static void take_refusal(struct delivery *d, const char *words)
{
	spool_remove(d->spool, d->under_way);
	d->failures = 0;
	if (d->refused++ == 0 || clock_now() - d->said_ns > SAY_EVERY_NS) {
		announce(d, "%s refuses a request, which is dropped: %s", d->o->where, words);
		d->said_ns = clock_now();
		d->said_refused = d->refused;
	}
}

void delivery_take(struct delivery *d)
{
	_cleanup_strbuf_ struct strbuf words = STRBUF_INIT;
	struct sender_answer a;

	if (!sender_answer(&d->sender, &a)) {
		replace_sender(d, "the process that sends profiles has ended");
		return;
	}
	if (!d->under_way || a.serial != d->under_way)
		return;
	d->crashes = 0;
	words_of(&a, &words);
	if (a.outcome == SENDER_SENT) {
		spool_remove(d->spool, a.serial);
		sent(d);
	} else if (a.outcome == SENDER_REFUSED) {
		take_refusal(d, words.data);
	} else {
		fail(d, a.retry_after, words.data, a.outcome == SENDER_DENIED ? remedy_of(&a) : "");
	}
	d->under_way = 0;
}

uint64_t delivery_due(const struct delivery *d)
{
	if (d->under_way)
		return d->asked_ns + d->o->http.timeout * 1e9 + PATIENCE_NS;
	return spool_oldest(d->spool) ? d->next_ns : UINT64_MAX;
}

bool delivery_fails(const struct delivery *d)
{
	return d->failures > 0;
}

void delivery_say_losses(struct delivery *d, bool is_last)
{
	uint64_t dropped = d->spool->dropped - d->said_dropped;
	uint64_t refused = d->refused - d->said_refused;

	if ((!dropped && !refused) ||
	    (!is_last && d->said_ns && clock_now() - d->said_ns < SAY_EVERY_NS))
		return;
	if (dropped && d->spool->failed)
		announce(d, "%" PRIu64 " requests are lost: cannot write to the spool %s: %s",
			 dropped, d->spool->path, strerror(d->spool->failed));
	else if (dropped)
		announce(d,
			 "%" PRIu64 " requests are lost: the spool %s holds %" PRIu64
			 " MB at most; use --spool-size",
			 dropped, d->spool->path, d->spool->most_bytes >> 20);
	if (refused)
		announce(d, "%" PRIu64 " more requests were refused and dropped", refused);
	d->said_dropped = d->spool->dropped;
	d->said_refused = d->refused;
	d->said_ns = clock_now();
}
