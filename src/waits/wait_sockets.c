/*
 * The addresses of connections, out of the target's own memory: a core file has them too, and
 * nothing is asked of the kernel.
 *
 * A goroutine that waits for the network has a pointer to its net.netFD in a frame. It begins with
 * a poll.FD: a lock of 16 bytes, Sysfd, and further on pd.runtimeCtx, the address of the pollDesc.
 * Behind that are `net`, a string like "tcp", and laddr and raddr, interfaces (net/fd_posix.go, Go
 * 1.17 to 1.27). What agrees with fd and pollDesc is taken.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/strbuf.h"
#include "waits/room.h"

#define STACK_BYTES 4096
#define MAX_FRAMES 16
#define MAX_TRIES 256
#define FD_BYTES 256
#define SYSFD 16
#define MAX_PATH 108

struct netfd {
	uint64_t words[FD_BYTES / 8];
};

static bool read_at(const struct wait_graph *w, uint64_t address, void *to, size_t size)
{
	return address >= 4096 && !error_dropped(target_read(w->t, address, to, size));
}

/* The word of the pollDesc; 0: it is no such netFD. */
static size_t place_of_poll(const struct netfd *fd, const struct wait_object *o)
{
	if ((int64_t)fd->words[SYSFD / 8] != o->fd)
		return 0;
	for (size_t i = SYSFD / 8 + 1; i < 12; i++)
		if (fd->words[i] == o->address)
			return i;
	return 0;
}

static bool is_net(const struct wait_graph *w, uint64_t text, uint64_t length, bool *ret_unix)
{
	char name[8] = "";

	if (length < 2 || length >= sizeof(name) || !read_at(w, text, name, length))
		return false;
	*ret_unix = !strncmp(name, "unix", 4);
	return *ret_unix || !strncmp(name, "tcp", 3) || !strncmp(name, "udp", 3) ||
	       !strncmp(name, "ip", 2);
}

/* A net.TCPAddr or UDPAddr: IP, a slice of 4 or 16 bytes, and Port. */
static const char *inet_text(struct wait_graph *w, uint64_t address)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint64_t words[4];
	uint8_t ip[16];
	char text[INET6_ADDRSTRLEN];

	if (!read_at(w, address, words, sizeof(words)) || words[3] > UINT16_MAX)
		return "";
	if (words[1] && ((words[1] != 4 && words[1] != 16) || !read_at(w, words[0], ip, words[1])))
		return "";
	if (!words[1])
		return wait_keep(w, ":%lu", words[3]);
	if (words[1] == 16 && memcmp(ip, mapped, sizeof(mapped)))
		return wait_keep(w, "[%s]:%lu", inet_ntop(AF_INET6, ip, text, sizeof(text)),
				 words[3]);
	return wait_keep(w, "%s:%lu",
			 inet_ntop(AF_INET, ip + (words[1] == 16 ? 12 : 0), text, sizeof(text)),
			 words[3]);
}

/* A net.UnixAddr: its name first. */
static const char *unix_text(struct wait_graph *w, uint64_t address)
{
	char path[MAX_PATH];
	uint64_t words[2];

	if (!read_at(w, address, words, sizeof(words)) || words[1] >= sizeof(path) ||
	    (words[1] && !read_at(w, words[0], path, words[1])))
		return "";
	return wait_keep(w, "%.*s", (int)words[1], path);
}

/* False: no memory. Other words of a stack may look like the beginning of a netFD; only a netFD
 * goes on with the name of a network. */
static bool take_addresses(struct wait_graph *w, const struct netfd *fd, size_t from,
			   struct wait_object *o, bool *ret_found)
{
	for (size_t i = from + 1; i + 6 <= FD_BYTES / 8; i++) {
		const char *(*text)(struct wait_graph *, uint64_t);
		bool is_unix;

		if (!is_net(w, fd->words[i], fd->words[i + 1], &is_unix))
			continue;
		*ret_found = true;
		text = is_unix ? unix_text : inet_text;
		o->local = fd->words[i + 3] ? text(w, fd->words[i + 3]) : "";
		o->remote = fd->words[i + 5] ? text(w, fd->words[i + 5]) : "";
		return o->local && o->remote;
	}
	return true;
}

/* false: no memory. */
static bool find_in_frames(struct wait_graph *w, const struct wait_stack *s, struct wait_object *o)
{
	bool found = false;
	size_t tries = 0;

	for (size_t i = 0; i < s->frames.count && i < MAX_FRAMES; i++) {
		const struct frame *f = &s->frames.items[i];
		uint64_t word;

		for (uint64_t at = f->sp; at < f->cfa && tries < MAX_TRIES; at += 8) {
			struct netfd fd;
			size_t place;

			if (!wait_stack_word(s, at, &word) || word < 4096 || word & 7)
				continue;
			tries++;
			if (!read_at(w, word, &fd, sizeof(fd)))
				continue;
			place = place_of_poll(&fd, o);
			if (place && !take_addresses(w, &fd, place, o, &found))
				return false;
			if (found)
				return true;
		}
	}
	return true;
}

struct error *wait_graph_find_sockets(struct wait_graph *w)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < w->object_count; i++) {
		struct wait_object *o = &w->objects[i];
		_cleanup_wait_stack_ struct wait_stack s = {0};
		bool ok;

		if (o->kind != WAIT_NETWORK || o->fd < 0)
			continue;
		if (w->options.stop && atomic_load(w->options.stop))
			return &error_stopped;
		err = wait_stack_read(w, &w->goroutines[w->edges[o->waiters[0]].goroutine],
				      STACK_BYTES, &s, &ok);
		if (!err && ok && !find_in_frames(w, &s, o))
			err = &error_no_memory;
	}
	return err;
}
