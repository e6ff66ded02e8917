/* The unprivileged end: sends requests over the socket, one at a time. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/broker.h"
#include "sandbox/message.h"

static int broker = -1;
/* For one request at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool ask_at(int socket, struct message *m)
{
	return message_send(socket, m) && message_receive(socket, m);
}

static bool ask(struct message *m)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = ask_at(broker, m);
	pthread_mutex_unlock(&lock);
	return done;
}

/* The one descriptor of the answer; -1 and errno. */
static int take_descriptor(struct message *m, bool asked)
{
	if (asked && !m->a && m->call.fd_count == 1)
		return m->call.fds[0];
	errno = asked && m->a ? m->a : EPIPE;
	return -1;
}

static int ask_to_open(const char *path, int flags)
{
	struct message m = {.kind = MESSAGE_OPEN, .a = flags};
	size_t size = strlen(path) + 1;

	if (size > PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(m.call.bytes, path, size);
	m.call.size = size;
	return take_descriptor(&m, ask(&m));
}

static int ask_for_perf_event(const struct perf_event_attr *attr, pid_t thread, int cpu)
{
	struct message m = {.kind = MESSAGE_PERF_EVENT, .a = thread, .b = cpu};

	memcpy(m.call.bytes, attr, sizeof(*attr));
	m.call.size = sizeof(*attr);
	return take_descriptor(&m, ask(&m));
}

static int ask_for_temporary(unsigned int folder)
{
	struct message m = {.kind = MESSAGE_TEMPORARY, .a = folder};

	return take_descriptor(&m, ask(&m));
}

/* The result of the answer. `asked`: there was an answer. */
static struct error *must_check take_answer(const struct message *m, bool asked,
					    struct door_call *call)
{
	if (!asked)
		return error_format(
			ERROR_FAILED,
			"the privileged process of gospect has exited; run gospect again");
	if (m->a)
		return error_format(m->b >= 0 && m->b <= ERROR_USAGE ? (enum error_code)m->b
								     : ERROR_FAILED,
				    "%.*s", (int)sizeof(m->call.bytes), (char *)m->call.bytes);
	memcpy(call, &m->call, sizeof(*call));
	return NULL;
}

static struct error *ask_for_service(enum door_service service, struct door_call *call)
{
	struct message m = {.kind = MESSAGE_SERVICE, .a = service};

	memcpy(&m.call, call, sizeof(*call));
	return take_answer(&m, ask(&m), call);
}

struct error *broker_ask(int socket, enum door_service service, struct door_call *call)
{
	struct message m = {.kind = MESSAGE_SERVICE, .a = service};

	memcpy(&m.call, call, sizeof(*call));
	return take_answer(&m, ask_at(socket, &m), call);
}

const struct door *broker_door(int socket)
{
	static const struct door door = {ask_to_open, ask_for_perf_event, ask_for_temporary,
					 ask_for_service};

	broker = socket;
	return &door;
}
