#include "serve/serve_link.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(SERVE_FDS * sizeof(int))];
};

static ssize_t send_packet(int socket, const struct msghdr *packet)
{
	ssize_t n;

	do
		n = sendmsg(socket, packet, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t receive_packet(int socket, struct msghdr *packet)
{
	ssize_t n;

	do
		n = recvmsg(socket, packet, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	return n;
}

/* ---- the front's end ---- */

static bool send_request(int socket, const struct serve_request *request, const uint64_t *addresses)
{
	size_t size = request->address_count * sizeof(*addresses);
	struct iovec parts[] = {{(void *)request, sizeof(*request)}, {(void *)addresses, size}};
	struct msghdr packet = {.msg_iov = parts, .msg_iovlen = size ? 2 : 1};

	return send_packet(socket, &packet) == (ssize_t)(sizeof(*request) + size);
}

bool serve_link_ask(int socket, const struct serve_request *request, const uint64_t *addresses,
		    struct serve_answer *ret, int ret_fds[SERVE_FDS])
{
	union control control = {0};
	struct iovec part = {ret, sizeof(*ret)};
	struct msghdr packet = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	const struct cmsghdr *c;

	if (!send_request(socket, request, addresses) ||
	    receive_packet(socket, &packet) != sizeof(*ret))
		return false;
	c = CMSG_FIRSTHDR(&packet);
	if (ret->status)
		return true;
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(SERVE_FDS * sizeof(int)))
		return false;
	memcpy(ret_fds, CMSG_DATA(c), SERVE_FDS * sizeof(int));
	return true;
}

/* ---- the keeper's end ---- */

static bool is_within_limits(const struct serve_request *r, size_t address_bytes)
{
	return r->kind < SERVE_KINDS && !serve_kind_is_of_front(r->kind) &&
	       r->format < SERVE_FORMATS && isfinite(r->from) && isfinite(r->to) && r->debug <= 2 &&
	       r->pid >= 0 && (r->pid > 0) == serve_kind_has_process(r->kind) &&
	       isfinite(r->seconds) && r->seconds >= 0 && r->seconds <= SERVE_MOST_SECONDS &&
	       r->address_count <= SERVE_MOST_ADDRESSES &&
	       address_bytes == r->address_count * sizeof(uint64_t);
}

int serve_link_receive(int socket, struct serve_request *ret, uint64_t *addresses)
{
	struct iovec parts[] = {{ret, sizeof(*ret)},
				{addresses, SERVE_MOST_ADDRESSES * sizeof(*addresses)}};
	struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t n = receive_packet(socket, &packet);

	if (n <= 0)
		return 0;
	if (n < (ssize_t)sizeof(*ret) || packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -1;
	return is_within_limits(ret, n - sizeof(*ret)) ? 1 : -1;
}

bool serve_link_answer(int socket, const struct serve_answer *answer, const int fds[SERVE_FDS])
{
	union control control = {.head = {.cmsg_len = CMSG_LEN(SERVE_FDS * sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS}};
	struct iovec part = {(void *)answer, sizeof(*answer)};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

	if (fds) {
		memcpy(CMSG_DATA(&control.head), fds, SERVE_FDS * sizeof(int));
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control);
	}
	return send_packet(socket, &packet) == sizeof(*answer);
}

bool serve_link_await(int socket, struct serve_answer *ret)
{
	struct iovec part = {ret, sizeof(*ret)};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

	return receive_packet(socket, &packet) == sizeof(*ret);
}
