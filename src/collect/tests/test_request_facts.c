#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "collect/request_facts.h"

static void becomes(const char *bytes, size_t size, const char *want)
{
	struct strbuf sb = STRBUF_INIT;

	request_facts_add(&sb, &(struct drain_text){(const uint8_t *)bytes, size});
	assert_string_equal(sb.data, want);
	strbuf_release(&sb);
}

#define BECOMES(bytes, want) becomes(bytes, sizeof(bytes) - 1, want)

static void parts_become_a_line(void **state)
{
	BECOMES("\1\3GET\2\4/a b\4\7[::1]:8", "method=GET path=/a%20b peer=[::1]:8");
	BECOMES("\3\2/a", "path=/a...");
	BECOMES("\1\3GET\2\0", "method=GET"); /* an empty path */
	BECOMES("\6\4/a/b", "method=gRPC path=/a/b");
	BECOMES("\7\7\x50\0\4\12\1\2\3", "peer=10.1.2.3:80");
	BECOMES("\7\23\x39\x30\20\0\0\0\0\0\0\0\0\0\0\xff\xff\177\0\0\1", "peer=127.0.0.1:12345");
	BECOMES("\7\27\1\0\20\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1eth0", "peer=[fe80::1%25eth0]:1");
	BECOMES("\7\6\1\0\4\1\2\3", "");   /* an address is cut */
	BECOMES("\7\7\1\0\3\1\2\3\4", ""); /* not an address */
	BECOMES("\7\0", "");
	BECOMES("", "");
}

static void of_a_valid_traceparent_both_ids_are_kept(void **state)
{
	BECOMES("\5\67"
		"00-0123456789abcdef0123456789abcdef-fedcba9876543210-01",
		"span_id=fedcba9876543210 trace_id=0123456789abcdef0123456789abcdef");
	/* A later version, with more behind it. */
	BECOMES("\5\72"
		"01-0123456789abcdef0123456789abcdef-fedcba9876543210-01-ab",
		"span_id=fedcba9876543210 trace_id=0123456789abcdef0123456789abcdef");
	BECOMES("\5\67"
		"ff-0123456789abcdef0123456789abcdef-fedcba9876543210-01",
		"");
	BECOMES("\5\67"
		"00-00000000000000000000000000000000-fedcba9876543210-01",
		"");
	BECOMES("\5\67"
		"00-0123456789abcdef0123456789abcdef-0000000000000000-01",
		"");
	BECOMES("\5\67"
		"00-0123456789ABCDEF0123456789abcdef-fedcba9876543210-01",
		"");
	BECOMES("\5\67"
		"00_0123456789abcdef0123456789abcdef-fedcba9876543210-01",
		"");
	BECOMES("\5\12"
		"00-0123456",
		"");
}

/* The target may write what it likes. */
static void any_bytes_are_survived(void **state)
{
	uint8_t bytes[64];

	srandom(1);
	for (int round = 0; round < 20000; round++) {
		struct strbuf sb = STRBUF_INIT;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = random() % 3 ? random() % 7 : random();
		request_facts_add(&sb, &(struct drain_text){bytes, sizeof(bytes)});
		assert_true(sb.length < 1024);
		strbuf_release(&sb);
	}
	BECOMES("\1\12GET", "");            /* longer than there is */
	BECOMES("\3\1a\3\1b", "path=a..."); /* it is cut once */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_become_a_line),
		cmocka_unit_test(of_a_valid_traceparent_both_ids_are_kept),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
