/* Requests: which URL is which, who may ask, and what a hostile front or worker sends. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "serve/serve_answer.h"
#include "serve/serve_history.h"
#include "serve/serve_hour_page.h"
#include "serve/serve_link.h"
#include "serve/serve_names.h"
#include "serve/serve_route.h"
#include "serve/serve_store.h"

static const struct serve_query none = {NULL};

static enum serve_routed route(const char *path, int32_t only, struct serve_request *ret)
{
	const char *wrong;

	return serve_route(path, &none, only, ret, &wrong);
}

static void test_paths_of_one_process_need_no_number(void **state)
{
	struct serve_request r;

	assert_int_equal(route("/debug/pprof/heap", 42, &r), SERVE_FOUND);
	assert_int_equal(r.kind, SERVE_HEAP);
	assert_int_equal(r.pid, 42);
	assert_int_equal(route("/7/debug/pprof/heap", 42, &r), SERVE_FOUND);
	assert_int_equal(r.pid, 7);
	assert_int_equal(route("/debug/pprof/heap", 0, &r), SERVE_NOT_FOUND);
	assert_int_equal(route("/debug/pprof", 42, &r), SERVE_MOVED);
	assert_int_equal(route("/debug/pprof/", 42, &r), SERVE_FOUND);
	assert_int_equal(r.kind, SERVE_INDEX);
	assert_int_equal(route("/9/waits", 0, &r), SERVE_FOUND);
	assert_int_equal(r.kind, SERVE_WAITS);
	assert_int_equal(route("/9/", 0, &r), SERVE_FOUND);
	assert_int_equal(r.kind, SERVE_HISTORY);
	assert_int_equal(route("/metrics", 0, &r), SERVE_FOUND);
	assert_int_equal(route("/", 0, &r), SERVE_FOUND);
	assert_int_equal(r.kind, SERVE_HOME);
}

static void test_other_paths_lead_nowhere(void **state)
{
	static const char *const paths[] = {
		"",
		"//",
		"/..",
		"/debug/pprof/../../etc/passwd",
		"/debug/pprof//heap",
		"/debug/pprof/heap/",
		"/debug/pprof/<script>scripty<script>",
		"/debug/pprof/Heap",
		"/0/debug/pprof/heap",
		"/007/debug/pprof/heap",
		"/-1/debug/pprof/heap",
		"/+1/debug/pprof/heap",
		"/99999999999999999999/debug/pprof/heap",
		"/4294967297/debug/pprof/heap",
		"/2147483648/debug/pprof/heap",
		"/42",
		"/42/proc/self/environ",
		"/metrics/",
		"debug/pprof/heap",
	};
	struct serve_request r;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(route(paths[i], 42, &r), SERVE_NOT_FOUND);
}

static enum serve_routed ask(const char *path, const char *seconds, const char *debug,
			     const char *format, struct serve_request *ret)
{
	const struct serve_query q = {seconds, debug, format};
	const char *wrong;

	return serve_route(path, &q, 1, ret, &wrong);
}

/* net/http/pprof: Profile(), Trace(), serveDeltaProfile(). */
static void test_seconds_are_taken_as_net_http_pprof_takes_them(void **state)
{
	struct serve_request r;
	static const char *const strange[] = {"-1",    "0",   "",    "x",  "1x",
					      "1e400", "nan", "inf", "0x5"};

	assert_int_equal(ask("/debug/pprof/profile", "5", NULL, NULL, &r), SERVE_FOUND);
	assert_true(r.seconds == 5);
	assert_int_equal(ask("/debug/pprof/trace", "0.25", NULL, NULL, &r), SERVE_FOUND);
	assert_true(r.seconds == 0.25);
	assert_int_equal(ask("/debug/pprof/heap", "2", NULL, NULL, &r), SERVE_FOUND);
	assert_true(r.seconds == 2);
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		assert_int_equal(ask("/debug/pprof/profile", strange[i], NULL, NULL, &r),
				 SERVE_FOUND);
		assert_true(r.seconds == 30);
		assert_int_equal(ask("/debug/pprof/heap", strange[i], NULL, NULL, &r), SERVE_WRONG);
	}
	assert_int_equal(ask("/debug/pprof/profile", "1.5", NULL, NULL, &r), SERVE_FOUND);
	assert_true(r.seconds == 30);
	assert_int_equal(ask("/debug/pprof/profile", "3601", NULL, NULL, &r), SERVE_WRONG);
	assert_int_equal(ask("/debug/pprof/trace", "1e18", NULL, NULL, &r), SERVE_WRONG);
	assert_int_equal(ask("/debug/pprof/heap", "5", "1", NULL, &r), SERVE_WRONG);
}

static void test_debug_and_format_are_those_of_the_kind(void **state)
{
	struct serve_request r;

	assert_int_equal(ask("/debug/pprof/goroutine", NULL, "2", NULL, &r), SERVE_FOUND);
	assert_int_equal(r.debug, 2);
	assert_int_equal(ask("/debug/pprof/goroutine", NULL, "99999999999", NULL, &r), SERVE_FOUND);
	assert_int_equal(r.debug, 2);
	assert_int_equal(ask("/debug/pprof/goroutine", NULL, "x", NULL, &r), SERVE_FOUND);
	assert_int_equal(r.debug, 0);
	assert_int_equal(ask("/wall", NULL, NULL, "html", &r), SERVE_FOUND);
	assert_int_equal(r.format, SERVE_HTML);
	assert_int_equal(ask("/wall", NULL, NULL, "dot", &r), SERVE_WRONG);
	assert_int_equal(ask("/waits", NULL, NULL, NULL, &r), SERVE_FOUND);
	assert_int_equal(r.format, SERVE_JSON);
	assert_int_equal(ask("/waits", NULL, NULL, "html", &r), SERVE_WRONG);
}

static void test_addresses_are_read_up_to_the_limit(void **state)
{
	uint64_t found[4];

	assert_int_equal(serve_addresses("0x10+32+zz++0+0x+-5+0x20", found, 4), 3);
	assert_int_equal(found[0], 0x10);
	assert_int_equal(found[1], 32);
	assert_int_equal(found[2], 0x20);
	assert_int_equal(serve_addresses("1+2+3+4+5+6", found, 4), 4);
	assert_int_equal(serve_addresses("99999999999999999999999", found, 4), 0);
	assert_int_equal(serve_addresses("", found, 4), 0);
}

/* ---- names ---- */

static bool is_ours(const char *host, const char *at, const char *const *names)
{
	struct sockaddr_storage local;
	socklen_t size;

	assert_true(serve_address_parse(at, &local, &size));
	return serve_host_is_ours(host, &local, names, 80);
}

static void test_only_the_address_and_its_names_are_ours(void **state)
{
	const char *const names[] = {"pprof.example", NULL};

	assert_true(is_ours("127.0.0.1:6060", "127.0.0.1:6060", names));
	assert_true(is_ours("localhost:6060", "127.0.0.1:6060", names));
	assert_true(is_ours("LOCALHOST:6060", "[::1]:6060", names));
	assert_true(is_ours("[::1]:6060", "[::1]:6060", names));
	assert_true(is_ours("pprof.example:6060", "10.0.0.1:6060", names));
	assert_true(is_ours("10.0.0.1", "10.0.0.1:80", names));
	assert_true(is_ours("10.0.0.1:80", "[::ffff:10.0.0.1]:80", names));
	assert_false(is_ours("evil.example:6060", "127.0.0.1:6060", names));
	assert_false(is_ours("evil.example", "127.0.0.1:80", names));
	assert_false(is_ours("127.0.0.1:6061", "127.0.0.1:6060", names));
	assert_false(is_ours("127.0.0.1", "127.0.0.1:6060", names));
	assert_false(is_ours("10.0.0.1:6060", "127.0.0.1:6060", names));
	assert_false(is_ours("localhost:6060", "10.0.0.1:6060", names));
	assert_false(is_ours("localhost.evil.example:6060", "127.0.0.1:6060", names));
	assert_false(is_ours("127.0.0.1:6060@evil", "127.0.0.1:6060", names));
	assert_false(is_ours("127.0.0.1:6060:6060", "127.0.0.1:6060", names));
	assert_false(is_ours("[::1:6060", "[::1]:6060", names));
	assert_false(is_ours("[::1]x:6060", "[::1]:6060", names));
	assert_false(is_ours("", "127.0.0.1:80", names));
	assert_false(is_ours(":6060", "127.0.0.1:6060", names));
	assert_false(is_ours("2130706433:6060", "127.0.0.1:6060", names));
}

static void test_addresses_to_listen_on(void **state)
{
	struct sockaddr_storage a;
	socklen_t size;
	char text[SERVE_ADDRESS_SIZE];

	assert_true(serve_address_parse("127.0.0.1:6060", &a, &size));
	assert_true(serve_address_is_loopback(&a));
	assert_int_equal(serve_address_port(&a), 6060);
	assert_true(serve_address_parse("[::1]:0", &a, &size));
	assert_true(serve_address_is_loopback(&a));
	serve_address_text(&a, text);
	assert_string_equal(text, "[::1]:0");
	assert_true(serve_address_parse(":6060", &a, &size));
	assert_false(serve_address_is_loopback(&a));
	assert_true(serve_address_parse("0.0.0.0:6060", &a, &size));
	assert_false(serve_address_is_loopback(&a));
	assert_true(serve_address_parse("[::ffff:127.0.0.1]:1", &a, &size));
	assert_true(serve_address_is_loopback(&a));
	assert_true(serve_address_parse("[::ffff:10.0.0.1]:1", &a, &size));
	assert_false(serve_address_is_loopback(&a));
	assert_false(serve_address_parse("127.0.0.1", &a, &size));
	assert_false(serve_address_parse("127.0.0.1:65536", &a, &size));
	assert_false(serve_address_parse("127.0.0.1:-1", &a, &size));
	assert_false(serve_address_parse("example.org:80", &a, &size));
	assert_false(serve_address_parse("", &a, &size));
}

/* ---- the link ---- */

static const struct serve_request proper = {.kind = SERVE_HEAP, .pid = 5};

/* What the keeper makes of a packet of the front. */
static int received(const struct serve_request *request, size_t size, const void *behind,
		    size_t behind_size)
{
	struct iovec parts[] = {{(void *)request, size}, {(void *)behind, behind_size}};
	const struct msghdr packet = {.msg_iov = parts, .msg_iovlen = behind_size ? 2 : 1};
	static uint64_t addresses[SERVE_MOST_ADDRESSES];
	struct serve_request r;
	int ends[2], ret;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_true(sendmsg(ends[0], &packet, 0) >= 0);
	ret = serve_link_receive(ends[1], &r, addresses);
	close(ends[0]);
	close(ends[1]);
	return ret;
}

static int received_request(const struct serve_request *request)
{
	return received(request, sizeof(*request), NULL, 0);
}

static void test_keeper_takes_no_request_beyond_its_limits(void **state)
{
	const struct serve_request wrong[] = {
		{.kind = SERVE_KINDS, .pid = 5},
		{.kind = SERVE_HISTORY, .pid = 5},
		{.kind = SERVE_HEAP, .pid = 0},
		{.kind = SERVE_HEAP, .pid = -1},
		{.kind = SERVE_HOME, .pid = 5},
		{.kind = SERVE_HEAP, .pid = 5, .format = SERVE_FORMATS},
		{.kind = SERVE_HEAP, .pid = 5, .debug = 3},
		{.kind = SERVE_HEAP, .pid = 5, .seconds = -1},
		{.kind = SERVE_HEAP, .pid = 5, .seconds = NAN},
		{.kind = SERVE_HEAP, .pid = 5, .seconds = INFINITY},
		{.kind = SERVE_HEAP, .pid = 5, .seconds = 3601},
		{.kind = SERVE_SYMBOL, .pid = 5, .address_count = 1},
		{.kind = SERVE_SYMBOL, .pid = 5, .address_count = UINT32_MAX},
	};
	const struct serve_request with_two = {.kind = SERVE_SYMBOL, .pid = 5, .address_count = 2};
	const uint64_t addresses[] = {1, 2};
	static const char many[sizeof(uint64_t) * (SERVE_MOST_ADDRESSES + 1)];

	assert_int_equal(received_request(&proper), 1);
	assert_int_equal(received(&with_two, sizeof(with_two), addresses, sizeof(addresses)), 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(received_request(&wrong[i]), -1);
	assert_int_equal(received(&proper, sizeof(proper) - 1, NULL, 0), -1);
	assert_int_equal(received(&with_two, sizeof(with_two), addresses, 9), -1);
	assert_int_equal(received(&proper, sizeof(proper), many, sizeof(many)), -1);
}

/* ---- answers ---- */

/* A stream that has these bytes, and whose other end is closed then. */
static struct serve_stream stream_of(const void *bytes, size_t size)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(write(ends[1], bytes, size), size);
	close(ends[1]);
	return (struct serve_stream){.fd = ends[0]};
}

static void test_an_answer_is_read_to_its_end(void **state)
{
	struct {
		struct serve_head head;
		uint32_t size;
		char text[4];
		uint32_t end;
	} sent = {{SERVE_MAGIC, 200, SERVE_TYPE_TEXT, 0, ""}, 4, "text", 0};
	struct serve_stream s = stream_of(&sent, sizeof(sent));
	char bytes[16];
	size_t n;

	assert_int_equal(serve_stream_head(&s), SERVE_READ_SOME);
	assert_int_equal(serve_stream_body(&s, bytes, 3, &n), SERVE_READ_SOME);
	assert_int_equal(n, 3);
	assert_int_equal(serve_stream_body(&s, bytes, sizeof(bytes), &n), SERVE_READ_SOME);
	assert_int_equal(n, 1);
	assert_int_equal(serve_stream_body(&s, bytes, sizeof(bytes), &n), SERVE_READ_END);
	close(s.fd);
	/* Without its end it is broken: the client must not take it for whole. */
	s = stream_of(&sent, sizeof(sent) - sizeof(sent.end));
	assert_int_equal(serve_stream_head(&s), SERVE_READ_SOME);
	assert_int_equal(serve_stream_body(&s, bytes, sizeof(bytes), &n), SERVE_READ_SOME);
	assert_int_equal(serve_stream_body(&s, bytes, sizeof(bytes), &n), SERVE_READ_BROKEN);
	close(s.fd);
}

static void assert_broken(struct serve_head head)
{
	struct serve_stream s = stream_of(&head, sizeof(head));

	assert_int_equal(serve_stream_head(&s), SERVE_READ_BROKEN);
	close(s.fd);
}

static void test_a_hostile_head_is_refused(void **state)
{
	struct serve_head head = {SERVE_MAGIC, 200, SERVE_TYPE_TEXT, 0, "a remark"};
	struct serve_head other = head;

	other.magic++;
	assert_broken(other);
	other = head;
	other.status = 101;
	assert_broken(other);
	other = head;
	other.type = SERVE_TYPES;
	assert_broken(other);
	other = head;
	strcpy(other.remark, "a\r\nSet-Cookie: x");
	assert_broken(other);
	other = head;
	memset(other.remark, 'x', sizeof(other.remark));
	assert_broken(other);
}

static void test_a_frame_beyond_the_limit_is_refused(void **state)
{
	struct {
		struct serve_head head;
		uint32_t size;
	} sent = {{SERVE_MAGIC, 200, SERVE_TYPE_TEXT, 0, ""}, SERVE_MAX_FRAME + 1};
	struct serve_stream s = stream_of(&sent, sizeof(sent));
	char byte;
	size_t n;

	assert_int_equal(serve_stream_head(&s), SERVE_READ_SOME);
	assert_int_equal(serve_stream_body(&s, &byte, 1, &n), SERVE_READ_BROKEN);
	close(s.fd);
}

/* ---- the last hour ---- */

static void list(struct serve_history *h, int32_t pid, uint64_t start)
{
	serve_history_list(h, &(struct serve_listed){.pid = pid, .start = start, .name = "<b>"});
}

static void test_the_history_is_bounded_and_takes_no_nonsense(void **state)
{
	const struct serve_beat hostile = {NAN, {INFINITY, -1, NAN, 1e300}, -INFINITY, NAN, NAN};
	const struct serve_beat beat =
		{10, {5, 0, 10, 65}, 5, 2.5, .resident = 1e8, .has_requests = 1, .requests = 12};
	struct strbuf page = STRBUF_INIT, lines = STRBUF_INIT;
	struct serve_history h;

	assert_true(serve_history_init(&h, true, -1));
	list(&h, 7, 1);
	list(&h, 8, 1);
	assert_null(serve_history_find(&h, 9));
	for (int i = 0; i < 1000; i++)
		serve_past_add(&h.pasts[1], &beat);
	assert_int_equal(h.pasts[1].count, SERVE_HISTORY_BEATS);
	assert_true(h.pasts[1].total.locks == 2500);
	serve_history_metrics(&h, &lines);
	assert_non_null(strstr(lines.data, "{pid=\"8\",state=\"waiting\"} 65000.000\n"));
	assert_non_null(strstr(lines.data, "gospect_requests_per_second{pid=\"8\"} 12.000\n"));
	assert_null(strstr(lines.data, "pid=\"7\""));
	serve_past_add(&h.pasts[1], &hostile);
	serve_hour_page(serve_history_find(&h, 8), &page);
	assert_true(page.length < 256 << 10);
	assert_null(strstr(page.data, "nan"));
	assert_null(strstr(page.data, "inf"));
	assert_null(strstr(page.data, "<b> "));
	strbuf_release(&page);
	strbuf_release(&lines);
	free(h.pasts);
}

static void test_a_new_process_takes_the_place_of_one_that_has_ended(void **state)
{
	struct serve_history h;

	assert_true(serve_history_init(&h, false, -1));
	for (int32_t pid = 1; pid <= SERVE_HISTORY_MOST + 1; pid++)
		list(&h, pid, 1);
	/* All are alive. */
	assert_null(serve_history_find(&h, SERVE_HISTORY_MOST + 1));
	h.pasts[3].is_alive = false;
	list(&h, 99, 1);
	assert_ptr_equal(serve_history_find(&h, 99), &h.pasts[3]);
	assert_null(serve_history_find(&h, 4));
	/* Another process with the id of one that was known. */
	h.pasts[3].count = 5;
	list(&h, 99, 1);
	assert_int_equal(h.pasts[3].count, 5);
	list(&h, 99, 2);
	assert_int_equal(h.pasts[3].count, 0);
	free(h.pasts);
}

static void test_the_store_keeps_the_newest(void **state)
{
	int fd = serve_store_create();
	struct serve_store *s = serve_store_map(fd);
	struct strbuf bytes = STRBUF_INIT, got = STRBUF_INIT;
	struct serve_stored when;

	assert_non_null(s);
	/* Nobody can make it shorter. */
	assert_true(ftruncate(fd, 1) < 0);
	for (size_t i = 0; i < 100000; i++)
		strbuf_addc(&bytes, (char)i);
	for (int i = 0; i < 400; i++) {
		bytes.data[0] = (char)i;
		serve_store_add(s, &(struct serve_stored){i, i + 1}, &bytes);
	}
	assert_int_equal(serve_store_count(s), SERVE_STORE_PROFILES);
	/* 41 of them fit. */
	assert_false(serve_store_when(s, SERVE_STORE_PROFILES - 42, &when));
	for (size_t i = SERVE_STORE_PROFILES - 41; i < SERVE_STORE_PROFILES; i++) {
		strbuf_reset(&got);
		assert_true(serve_store_when(s, i, &when) && serve_store_get(s, i, &got));
		assert_int_equal(got.length, 100000);
		assert_int_equal((unsigned char)got.data[0], (unsigned char)(long)when.begin);
		assert_memory_equal(got.data + 1, bytes.data + 1, 99999);
	}
	/* A hostile one. */
	memset(s, 0xff, SERVE_STORE_BYTES);
	for (size_t i = 0; i < serve_store_count(s); i++)
		assert_false(serve_store_get(s, i, &got));
	strbuf_release(&bytes);
	strbuf_release(&got);
	serve_store_unmap(s);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths_of_one_process_need_no_number),
		cmocka_unit_test(test_other_paths_lead_nowhere),
		cmocka_unit_test(test_seconds_are_taken_as_net_http_pprof_takes_them),
		cmocka_unit_test(test_debug_and_format_are_those_of_the_kind),
		cmocka_unit_test(test_addresses_are_read_up_to_the_limit),
		cmocka_unit_test(test_only_the_address_and_its_names_are_ours),
		cmocka_unit_test(test_addresses_to_listen_on),
		cmocka_unit_test(test_keeper_takes_no_request_beyond_its_limits),
		cmocka_unit_test(test_an_answer_is_read_to_its_end),
		cmocka_unit_test(test_a_hostile_head_is_refused),
		cmocka_unit_test(test_a_frame_beyond_the_limit_is_refused),
		cmocka_unit_test(test_the_history_is_bounded_and_takes_no_nonsense),
		cmocka_unit_test(test_a_new_process_takes_the_place_of_one_that_has_ended),
		cmocka_unit_test(test_the_store_keeps_the_newest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
