#include "serve/serve_front.h"

#include <microhttpd.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "sandbox/sandbox.h"
#include "serve/serve_clients.h"
#include "serve/serve_exchange.h"
#include "serve/serve_guard.h"
#include "serve/serve_history.h"
#include "serve/serve_hour_page.h"
#include "serve/serve_link.h"
#include "serve/serve_page.h"
#include "serve/serve_response.h"
#include "serve/serve_route.h"

/* Limits of all clients together, and of one. */
#define MOST_CONNECTIONS 256
#define CONNECTION_MEMORY (32u << 10)
#define MOST_BODY (64u << 10)
#define MOST_MEMORY (256ull << 20)
#define EVENTS 64
#define SWEEP_MS 1000

struct front {
	const struct serve_front_options *options;
	struct MHD_Daemon *daemon;
	struct serve_clients clients;
	struct serve_tally tally;
	struct serve_history history;
	int epoll;
	bool is_over; /* the keeper is gone */
};

/* ---- connections ---- */

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct front *f = arg;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = info ? serve_clients_add(&f->clients, info->connect_fd) : NULL;
	} else if (*context) {
		serve_clients_remove(&f->clients, *context);
		*context = NULL;
	}
}

static struct serve_client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct serve_exchange *x = *context;
	struct front *f = arg;

	if (!x)
		return;
	serve_client_allow(x->client, SERVE_IDLE_SECONDS);
	f->tally.working -= x->is_started;
	if (x->status)
		f->tally.answered[x->status / 100 - 1]++;
	serve_exchange_destroy(x);
	*context = NULL;
}

/* ---- requests ---- */

/* A query without names: "symbol?0x4a1+0x4b2". */
static enum MHD_Result add_word(void *arg, enum MHD_ValueKind kind, const char *key,
				const char *value)
{
	struct strbuf *words = arg;

	if (key && !value && words->length + strlen(key) < MOST_BODY) {
		strbuf_adds(words, key);
		strbuf_addc(words, '+');
	}
	return MHD_YES;
}

static const char *argument(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result respond_error(struct serve_exchange *x, unsigned int status,
				     const char *text)
{
	x->status = status;
	return serve_respond_error(x->connection, status, text);
}

static void add_metrics(const struct front *f, struct strbuf *page)
{
	serve_metrics_server(page, &f->tally);
	serve_history_metrics(&f->history, page);
}

static enum MHD_Result start(struct front *f, struct serve_exchange *x,
			     struct serve_request *request)
{
	static uint64_t addresses[SERVE_MOST_ADDRESSES];
	struct serve_answer answer;
	int fds[SERVE_FDS];

	if (request->kind == SERVE_SYMBOL) {
		if (!x->body.length)
			MHD_get_connection_values(x->connection, MHD_GET_ARGUMENT_KIND, add_word,
						  &x->body);
		request->address_count =
			serve_addresses(x->body.data, addresses, SERVE_MOST_ADDRESSES);
	}
	if (!serve_link_ask(f->options->keeper, request, addresses, &answer, fds)) {
		f->is_over = true;
		return MHD_NO;
	}
	if (answer.status == MHD_HTTP_SERVICE_UNAVAILABLE)
		return respond_error(x, answer.status, "too many requests at once; try again");
	if (answer.status)
		return respond_error(x, answer.status, "Unknown process");
	f->tally.working++;
	f->tally.connections = f->clients.count;
	if (request->kind == SERVE_METRICS)
		add_metrics(f, &x->before);
	serve_exchange_start(x, request, fds);
	return MHD_YES;
}

/* What the front answers by itself. */
static enum MHD_Result answer_alone(struct front *f, struct serve_exchange *x,
				    const struct serve_request *r)
{
	static const enum serve_type media[SERVE_KINDS] = {[SERVE_HISTORY] = SERVE_TYPE_LIVE,
							   [SERVE_PICTURE] = SERVE_TYPE_PICTURE,
							   [SERVE_SCRIPT] = SERVE_TYPE_SCRIPT};
	const struct serve_past *past = serve_history_find(&f->history, r->pid);
	struct strbuf text = STRBUF_INIT;
	enum MHD_Result done;

	if (!past && r->kind != SERVE_SCRIPT)
		return respond_error(x, MHD_HTTP_NOT_FOUND,
				     "no history: the first 64 processes have one, from some "
				     "seconds after the start of gospect on");
	if (r->kind == SERVE_SCRIPT)
		strbuf_adds(&text, serve_hour_script);
	else if (r->kind == SERVE_PICTURE)
		serve_hour_picture(past, &text);
	else
		serve_hour_page(past, &text);
	x->status = MHD_HTTP_OK;
	done = serve_respond_text(x->connection, media[r->kind], &text);
	strbuf_release(&text);
	return done;
}

static enum MHD_Result route(struct front *f, struct serve_exchange *x, const char *path)
{
	const struct serve_query query = {.seconds = argument(x->connection, "seconds"),
					  .debug = argument(x->connection, "debug"),
					  .format = argument(x->connection, "format"),
					  .from = argument(x->connection, "from"),
					  .to = argument(x->connection, "to")};
	struct serve_request request;
	const char *wrong;

	switch (serve_route(path, &query, f->options->only, &request, &wrong)) {
	case SERVE_FOUND:
		return serve_kind_is_of_front(request.kind) ? answer_alone(f, x, &request)
							    : start(f, x, &request);
	case SERVE_MOVED:
		x->status = MHD_HTTP_MOVED_PERMANENTLY;
		return serve_respond_moved(x->connection, path);
	case SERVE_WRONG:
		return respond_error(x, MHD_HTTP_BAD_REQUEST, wrong);
	default:
		return respond_error(x, MHD_HTTP_NOT_FOUND,
				     strstr(path, "/debug/pprof/") ? "Unknown profile"
								   : "404 page not found");
	}
}

/* The head of a request is there. */
static enum MHD_Result begin(struct front *f, struct MHD_Connection *connection, const char *path,
			     const char *method, void **context)
{
	struct serve_client *client = client_of(connection);
	const char *text;
	unsigned int status;

	if (!client)
		return MHD_NO;
	serve_client_allow(client, SERVE_REQUEST_SECONDS);
	*context = serve_exchange_create(connection, client, f->epoll);
	if (!*context)
		return MHD_NO;
	status = serve_guard(f->options, connection, method, path, &text);
	return status ? respond_error(*context, status, text) : MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **context)
{
	struct serve_exchange *x = *context;
	struct front *f = arg;

	if (!x)
		return begin(f, connection, path, method, context);
	if (x->is_started)
		return serve_exchange_answer(x);
	if (*upload_size) {
		if (x->body.length + *upload_size > MOST_BODY)
			return MHD_NO;
		strbuf_add(&x->body, upload, *upload_size);
		*upload_size = 0;
		return x->body.failed ? MHD_NO : MHD_YES;
	}
	return route(f, x, path);
}

/* ---- the process ---- */

static struct MHD_Daemon *start_daemon(struct front *f)
{
	const struct serve_front_options *o = f->options;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->key},
		{o->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
		 (void *)o->client_ca},
		{MHD_OPTION_END, 0, NULL},
	};
	const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
	unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

	return MHD_start_daemon(flags | (o->certificate ? MHD_USE_TLS : 0), 0, NULL, NULL,
				on_request, f, MHD_OPTION_LISTEN_SOCKET, o->listener,
				MHD_OPTION_CONNECTION_LIMIT, (unsigned int)MOST_CONNECTIONS,
				MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SERVE_IDLE_SECONDS,
				MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
				MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
				on_connection, f, MHD_OPTION_NOTIFY_COMPLETED, on_completed, f,
				MHD_OPTION_ARRAY, o->certificate ? tls : none, MHD_OPTION_END);
}

static bool watch(int epoll, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int milliseconds(struct front *f)
{
	MHD_UNSIGNED_LONG_LONG timeout;

	if (MHD_get_timeout(f->daemon, &timeout) == MHD_YES && timeout < SWEEP_MS)
		return (int)timeout;
	return SWEEP_MS;
}

/* Answers requests until the keeper is gone. */
static void answer(struct front *f)
{
	struct epoll_event events[EVENTS];
	uint64_t swept = 0;

	while (!f->is_over) {
		int n = epoll_wait(f->epoll, events, EVENTS, milliseconds(f));

		for (int i = 0; i < n; i++)
			if (events[i].data.ptr == f)
				f->is_over = true;
			else if (events[i].data.ptr &&
				 !serve_history_event(&f->history, events[i].data.ptr))
				serve_exchange_event(events[i].data.ptr);
		/* Exchanges end here alone: events of one call never lead to one that has ended. */
		MHD_run(f->daemon);
		if (clock_now() - swept < SWEEP_MS * 1000000ull)
			continue;
		swept = clock_now();
		serve_clients_sweep(&f->clients);
		f->is_over |= !serve_history_tend(&f->history, f->options->keeper);
	}
}

static void ignore_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		signal(numbers[i], SIG_IGN);
}

noreturn void serve_front(const struct serve_front_options *o)
{
	struct front f = {.options = o, .epoll = epoll_create1(EPOLL_CLOEXEC)};
	struct serve_answer ready = {0}, unfit = {.status = 1};
	struct error *err;

	prctl(PR_SET_NAME, "gospect-http");
	ignore_signals();
	f.daemon = start_daemon(&f);
	err = sandbox_enter_server(MOST_MEMORY);
	/* Without seccomp it goes on without privilege. */
	if (err && err->code == ERROR_UNSUPPORTED) {
		ready.is_unconfined = 1;
		error_destroy(err);
		err = NULL;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != o->parent)
		_exit(0);
	if (err || !f.daemon || f.epoll < 0 ||
	    !serve_history_init(&f.history, o->is_fixed, f.epoll) ||
	    !watch(f.epoll, MHD_get_daemon_info(f.daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
		   NULL) ||
	    !watch(f.epoll, o->keeper, &f)) {
		serve_link_answer(o->keeper, &unfit, NULL);
		_exit(1);
	}
	if (serve_link_answer(o->keeper, &ready, NULL))
		answer(&f);
	_exit(0);
}
