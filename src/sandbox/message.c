#include "sandbox/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD offsetof(struct message, call)

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(DOOR_MAX_FDS * sizeof(int))];
};

bool message_send(int socket, const struct message *m)
{
	const struct door_call *call = &m->call;
	struct iovec parts[] = {{(void *)m, HEAD}, {(void *)call->bytes, call->size}};
	union control control = {.head = {.cmsg_len = CMSG_LEN(call->fd_count * sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS}};
	struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t n;

	if (call->fd_count) {
		memcpy(CMSG_DATA(&control.head), call->fds, call->fd_count * sizeof(int));
		packet.msg_control = &control;
		packet.msg_controllen = CMSG_SPACE(call->fd_count * sizeof(int));
	}
	do
		n = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)(HEAD + call->size);
}

static void take_descriptors(struct msghdr *packet, struct door_call *ret)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(packet);

	ret->fd_count = 0;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	ret->fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(ret->fds, CMSG_DATA(c), ret->fd_count * sizeof(int));
}

bool message_receive(int socket, struct message *ret)
{
	struct iovec parts[] = {{ret, HEAD}, {ret->call.bytes, sizeof(ret->call.bytes)}};
	union control control;
	struct msghdr packet = {.msg_iov = parts,
				.msg_iovlen = 2,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	ssize_t n;

	do
		n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return false;
	take_descriptors(&packet, &ret->call);
	ret->call.size = n < (ssize_t)HEAD ? 0 : n - HEAD;
	if (n >= (ssize_t)HEAD && !(packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return true;
	for (size_t i = 0; i < ret->call.fd_count; i++)
		close(ret->call.fds[i]);
	return false;
}
