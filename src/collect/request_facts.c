#include "collect/request_facts.h"

#include <arpa/inet.h>
#include <string.h>

#include "agent/agent_request.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "gotrace/label_text.h"
#include "labels/traceparent.h"

enum { MAX_FACTS = 8 };

/* Before the address in a PART_TCP. */
enum { TCP_HEAD = 3 };

struct facts {
	struct label_pair pairs[MAX_FACTS];
	size_t count;
};

static void add(struct facts *f, const char *key, const void *value, size_t length)
{
	if (f->count < MAX_FACTS && length)
		f->pairs[f->count++] = (struct label_pair){key, strlen(key), value, length};
}

static void add_traceparent(struct facts *f, const char *text, size_t length)
{
	if (!is_traceparent(text, length))
		return;
	add(f, "trace_id", text + TRACE_ID, TRACE_ID_LENGTH);
	add(f, "span_id", text + SPAN_ID, SPAN_ID_LENGTH);
}

/* As net.TCPAddr writes it: "10.0.0.1:80", "[fe80::1%eth0]:80". */
static void add_tcp(struct facts *f, const uint8_t *bytes, size_t length, struct strbuf *made)
{
	size_t ip = length > TCP_HEAD ? bytes[TCP_HEAD - 1] : 0, zone = length - TCP_HEAD - ip;
	const uint8_t *at = bytes + TCP_HEAD, mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	unsigned int port = length > TCP_HEAD ? bytes[0] | bytes[1] << 8 : 0;
	char text[INET6_ADDRSTRLEN];
	bool is_4 = ip == 4 ||
		    (ip == 16 && length >= TCP_HEAD + ip && !memcmp(at, mapped, sizeof(mapped)));

	if ((ip != 4 && ip != 16) || length < TCP_HEAD + ip || made->length)
		return;
	if (!inet_ntop(is_4 ? AF_INET : AF_INET6, at + (is_4 ? ip - 4 : 0), text, sizeof(text)))
		return;
	if (is_4)
		strbuf_addf(made, "%s:%u", text, port);
	else
		strbuf_addf(made, "[%s%s%.*s]:%u", text, zone ? "%" : "", (int)zone, at + ip, port);
	add(f, "peer", made->data, made->length);
}

/* Texts that are made here. */
struct made {
	struct strbuf path, peer;
};

static void add_part(struct facts *f, uint8_t part, const void *bytes, size_t length,
		     struct made *made)
{
	switch (part) {
	case PART_METHOD:
		add(f, "method", bytes, length);
		break;
	case PART_PATH:
		add(f, "path", bytes, length);
		break;
	case PART_PATH_CUT:
		strbuf_add(&made->path, bytes, length);
		strbuf_adds(&made->path, "...");
		add(f, "path", made->path.data, made->path.length);
		break;
	case PART_PEER:
		add(f, "peer", bytes, length);
		break;
	case PART_TCP:
		add_tcp(f, bytes, length, &made->peer);
		break;
	case PART_GRPC:
		add(f, "method", "gRPC", 4);
		add(f, "path", bytes, length);
		break;
	case PART_TRACEPARENT:
		add_traceparent(f, bytes, length);
		break;
	}
}

void request_facts_add(struct strbuf *sb, const struct drain_text *text)
{
	struct cursor c = cursor_of(text->bytes, text->length, "a request");
	struct made made = {STRBUF_INIT, STRBUF_INIT};
	struct facts f = {.count = 0};

	while (c.at < c.end) {
		uint8_t part = cursor_u8(&c);
		size_t length = cursor_uvarint(&c);
		const void *bytes = cursor_bytes(&c, length);

		/* Each text is made once: its label keeps a pointer to it. */
		if (c.failed || (part == PART_PATH_CUT && made.path.length))
			break;
		add_part(&f, part, bytes, length, &made);
	}
	sb->failed |= made.path.failed || made.peer.failed;
	label_text_add(sb, f.pairs, f.count);
	strbuf_release(&made.path);
	strbuf_release(&made.peer);
}

void request_fact_add(struct strbuf *sb, const char *key, const void *value, size_t length)
{
	struct label_pair pair = {key, strlen(key), value, length};

	label_text_add(sb, &pair, 1);
}
