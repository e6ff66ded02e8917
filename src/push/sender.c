#include "push/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/descriptors.h"
#include "sandbox/outgoing.h"

#define MOST_RETRY_AFTER 3600

struct request {
	uint64_t serial;
	uint64_t size;
	char token[SENDER_TOKEN];
};

/* ---- messages ---- */

bool sender_ask(const struct sender *s, uint64_t serial, int fd, size_t size, const char *token)
{
	struct request request = {.serial = serial, .size = size};
	struct iovec bytes = {&request, sizeof(request)};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct msghdr m = {.msg_iov = &bytes,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control.room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	snprintf(request.token, sizeof(request.token), "%s", token);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(s->socket, &m, MSG_NOSIGNAL) == sizeof(request);
}

/* False: gospect has ended. */
static bool receive(int socket, struct request *ret, int *ret_fd)
{
	struct iovec bytes = {ret, sizeof(*ret)};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = {.msg_iov = &bytes,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control.room)};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n == sizeof(*ret) ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return false;
	memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return true;
}

bool sender_answer(const struct sender *s, struct sender_answer *ret)
{
	ssize_t n = recv(s->socket, ret, sizeof(*ret), 0);

	if (n != sizeof(*ret) || ret->outcome > SENDER_REFUSED)
		return false;
	ret->text[sizeof(ret->text) - 1] = '\0';
	if (!(ret->retry_after > 0))
		ret->retry_after = 0;
	ret->retry_after = fmin(ret->retry_after, MOST_RETRY_AFTER);
	return true;
}

/* ---- what an answer means ---- */

/* google.golang.org/grpc/codes has the numbers. */
static enum sender_outcome outcome_of_grpc(const struct http_answer *a)
{
	enum {
		INVALID_ARGUMENT = 3,
		NOT_FOUND = 5,
		ALREADY_EXISTS,
		PERMISSION_DENIED,
		RESOURCE_EXHAUSTED,
		FAILED_PRECONDITION,
		OUT_OF_RANGE = 11,
		UNIMPLEMENTED,
		DATA_LOSS = 15,
		UNAUTHENTICATED
	};

	switch (a->grpc_status) {
	case 0:
		return SENDER_SENT;
	case RESOURCE_EXHAUSTED:
		/* Of grpc-go: the message is larger than the server takes. */
		return strstr(a->text, "larger than max") ? SENDER_REFUSED : SENDER_RETRY;
	case INVALID_ARGUMENT:
	case ALREADY_EXISTS:
	case FAILED_PRECONDITION:
	case OUT_OF_RANGE:
	case DATA_LOSS:
		return SENDER_REFUSED;
	case NOT_FOUND:
	case PERMISSION_DENIED:
	case UNIMPLEMENTED:
	case UNAUTHENTICATED:
		return SENDER_DENIED;
	}
	return SENDER_RETRY;
}

static enum sender_outcome outcome_of(const struct http_answer *a, bool is_grpc)
{
	switch (a->status) {
	case 0:
	case 408:
	case 425:
	case 429:
		return SENDER_RETRY;
	case 401:
	case 403:
	case 404:
	case 405:
	case 407:
		return SENDER_DENIED;
	}
	if (a->status >= 200 && a->status < 300)
		return is_grpc ? outcome_of_grpc(a) : SENDER_SENT;
	if (a->status >= 400 && a->status < 500)
		return SENDER_REFUSED;
	return a->status >= 500 ? SENDER_RETRY : SENDER_DENIED;
}

/* ---- the process ---- */

static void answer(int socket, const struct sender_answer *a)
{
	if (send(socket, a, sizeof(*a), MSG_NOSIGNAL) != sizeof(*a))
		_exit(1);
}

static uint8_t *read_all(int fd, size_t size)
{
	uint8_t *bytes = malloc(size + 1);
	size_t at = 0;

	while (bytes && at < size) {
		ssize_t n = read(fd, bytes + at, size - at);

		if (n <= 0 && (!n || errno != EINTR)) {
			free(bytes);
			return NULL;
		}
		at += n > 0 ? n : 0;
	}
	return bytes;
}

static void serve(int socket, struct http_client *client, const struct http_options *o)
{
	struct request request;
	int fd;

	while (receive(socket, &request, &fd)) {
		struct sender_answer a = {.serial = request.serial, .outcome = SENDER_RETRY};
		_cleanup_free_ uint8_t *body = read_all(fd, request.size);
		struct http_answer got;

		close(fd);
		request.token[sizeof(request.token) - 1] = '\0';
		if (body) {
			http_client_send(client, body, request.size, request.token, &got);
			a.outcome = outcome_of(&got, o->is_grpc);
			a.status = got.status;
			a.retry_after = got.retry_after;
			snprintf(a.text, sizeof(a.text), "%s", got.text);
		} else {
			snprintf(a.text, sizeof(a.text), "cannot read the spool");
		}
		explicit_bzero(&request, sizeof(request));
		answer(socket, &a);
	}
}

#ifdef GOSPECT_STATIC
/* libcurl has c-ares, which loads no code. */
static void resolve_once(const char *url)
{
}
#else
/* Loads what resolving names takes, as long as code can be loaded. */
static void resolve_once(const char *url)
{
	const char *begin = strstr(url, "://"), *at;
	char host[256];
	struct addrinfo *found;
	size_t length;

	if (!begin)
		return;
	begin += 3;
	at = strpbrk(begin, "@/");
	begin = at && *at == '@' ? at + 1 : begin;
	begin += *begin == '[';
	length = strcspn(begin, "]:/");
	if (length >= sizeof(host))
		return;
	memcpy(host, begin, length);
	host[length] = '\0';
	if (!getaddrinfo(host, NULL, NULL, &found))
		freeaddrinfo(found);
}
#endif

static void ignore_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		signal(numbers[i], SIG_IGN);
}

/* Keeps the socket alone, as descriptor 3. */
static int close_others(int socket)
{
	descriptors_keep(socket, socket);
	if (socket != 3 && dup2(socket, 3) < 0)
		_exit(1);
	descriptors_close(4, ~0u);
	return 3;
}

static _Noreturn void run(const struct http_options *o, int socket, pid_t parent)
{
	struct sender_answer ready = {.outcome = SENDER_READY};
	struct http_client *client = NULL;
	struct error *err;

	prctl(PR_SET_NAME, "gospect-sender");
	ignore_signals();
	socket = close_others(socket);
	err = outgoing_drop_privilege();
	/* Another user: the kernel forgets the signal of the parent's death. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (!err)
		err = http_client_open(o, &client);
	if (!err)
		resolve_once(o->url);
	if (!err)
		err = outgoing_confine();
	if (err && err->code == ERROR_UNSUPPORTED)
		error_destroy(take_ptr(err));
	if (err)
		snprintf(ready.text, sizeof(ready.text), "%s", err->message);
	answer(socket, &ready);
	if (!err)
		serve(socket, client, o);
	_exit(0);
}

struct error *sender_start(const struct http_options *o, struct sender *ret)
{
	pid_t parent = getpid();
	int sockets[2];

	*ret = (struct sender){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return error_errno(ERROR_FAILED, errno, "cannot create a socket");
	ret->pid = fork();
	if (!ret->pid) {
		close(sockets[0]);
		run(o, sockets[1], parent);
	}
	close(sockets[1]);
	ret->socket = sockets[0];
	if (ret->pid > 0)
		return NULL;
	close(ret->socket);
	*ret = (struct sender){.socket = -1};
	return error_errno(ERROR_FAILED, errno, "cannot start a process");
}

void sender_end(struct sender *s)
{
	if (s->socket >= 0)
		close(s->socket);
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*s = (struct sender){.socket = -1};
}
