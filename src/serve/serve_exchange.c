#include "serve/serve_exchange.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "serve/serve_response.h"

#define BLOCK_SIZE 65536

struct serve_exchange *serve_exchange_create(struct MHD_Connection *connection,
					     struct serve_client *client, int epoll)
{
	struct serve_exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	*x = (struct serve_exchange){.connection = connection,
				     .client = client,
				     .epoll = epoll,
				     .body = STRBUF_INIT,
				     .before = STRBUF_INIT,
				     .leash = -1,
				     .stream.fd = -1,
				     .from_worker = {x, false},
				     .from_client = {x, true}};
	return x;
}

/* Closing the leash stops the worker; it closes its end of the data then. */
static void let_go(struct serve_exchange *x)
{
	if (x->leash >= 0)
		close(x->leash);
	if (x->stream.fd >= 0)
		close(x->stream.fd);
	x->leash = x->stream.fd = -1;
}

void serve_exchange_destroy(struct serve_exchange *x)
{
	if (x->is_started)
		epoll_ctl(x->epoll, EPOLL_CTL_DEL, x->client->fd, NULL);
	let_go(x);
	strbuf_release(&x->body);
	strbuf_release(&x->before);
	free(x);
}

/* ---- waiting ---- */

static void watch(struct serve_exchange *x, int operation, int fd, uint32_t events,
		  struct serve_watch *what)
{
	struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = what};

	if (fd >= 0 && epoll_ctl(x->epoll, operation, fd, &event))
		x->is_gone = true;
}

static void wait_for_worker(struct serve_exchange *x)
{
	watch(x, EPOLL_CTL_MOD, x->stream.fd, EPOLLIN, &x->from_worker);
	x->is_suspended = true;
	MHD_suspend_connection(x->connection);
}

void serve_exchange_event(const struct serve_watch *from)
{
	struct serve_exchange *x = from->exchange;

	if (from->is_client) {
		x->is_gone = true;
		let_go(x);
	}
	if (!x->is_suspended)
		return;
	x->is_suspended = false;
	MHD_resume_connection(x->connection);
}

void serve_exchange_start(struct serve_exchange *x, const struct serve_request *request,
			  const int fds[SERVE_FDS])
{
	x->is_started = true;
	x->request = *request;
	x->stream.fd = fds[SERVE_FD_DATA];
	x->leash = fds[SERVE_FD_LEASH];
	serve_client_allow(x->client, request->seconds + SERVE_ANSWER_SECONDS);
	watch(x, EPOLL_CTL_ADD, x->stream.fd, 0, &x->from_worker);
	/* As net/http does, a client that sends no more is taken for gone. */
	watch(x, EPOLL_CTL_ADD, x->client->fd, EPOLLRDHUP, &x->from_client);
	wait_for_worker(x);
}

/* ---- answering ---- */

static ssize_t read_body(void *arg, uint64_t position, char *to, size_t size)
{
	struct serve_exchange *x = arg;
	size_t n = 0;

	if (x->is_gone)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (x->sent < x->before.length && x->status == MHD_HTTP_OK) {
		n = x->before.length - x->sent < size ? x->before.length - x->sent : size;
		memcpy(to, x->before.data + x->sent, n);
		x->sent += n;
		return n;
	}
	switch (serve_stream_body(&x->stream, to, size, &n)) {
	case SERVE_READ_SOME:
		return n;
	case SERVE_READ_LATER:
		wait_for_worker(x);
		return 0;
	case SERVE_READ_END:
		return MHD_CONTENT_READER_END_OF_STREAM;
	default:
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
}

static enum MHD_Result queue(struct serve_exchange *x)
{
	struct MHD_Response *response =
		MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_body, x, NULL);
	enum MHD_Result done;

	if (!response)
		return MHD_NO;
	serve_response_describe(response, &x->request, &x->stream.head);
	x->status = x->stream.head.status;
	done = MHD_queue_response(x->connection, x->status, response);
	MHD_destroy_response(response);
	return done;
}

enum MHD_Result serve_exchange_answer(struct serve_exchange *x)
{
	if (x->is_gone)
		return MHD_NO;
	switch (serve_stream_head(&x->stream)) {
	case SERVE_READ_SOME:
		return queue(x);
	case SERVE_READ_LATER:
		wait_for_worker(x);
		return MHD_YES;
	default:
		x->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
		return serve_respond_error(
			x->connection, x->status,
			"the worker failed: the program's file or memory is corrupt or hostile");
	}
}
