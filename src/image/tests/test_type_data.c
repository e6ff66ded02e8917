#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "image/type_data.h"

enum { START = 0x500000, BYTES = 4096 };
enum { PEER = 256, POINTER = 512, OTHER = 768, FIELDS = 1024, NAMES = 2048 };

struct fixture {
	uint8_t bytes[BYTES];
	size_t names;
	struct type_data types;
};

static void set_word(struct fixture *f, size_t at, uint64_t value)
{
	memcpy(f->bytes + at, &value, sizeof(value));
}

/* Where the name is. */
static uint32_t put_name(struct fixture *f, const char *name)
{
	size_t at = f->names, n = strlen(name);

	f->bytes[at] = 1;
	f->bytes[at + 1] = n & 0x7f;
	memcpy(f->bytes + at + 2, name, n);
	f->names += n + 3;
	return at;
}

static void put_structure(struct fixture *f, size_t at, uint32_t name, uint32_t package)
{
	set_word(f, at, 64);
	f->bytes[at + 20] = 1;
	f->bytes[at + 23] = 25;
	memcpy(f->bytes + at + 40, &name, sizeof(name));
	set_word(f, at + 56, START + FIELDS);
	set_word(f, at + 64, 2);
	memcpy(f->bytes + at + 80, &package, sizeof(package));
}

static struct fixture *make(int minor)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	uint32_t name, package;

	memset(f, 0, sizeof(*f));
	f->types = (struct type_data){minor, START, BYTES, f->bytes};
	f->names = NAMES;
	name = put_name(f, "*peer.Peer");
	package = put_name(f, "vendor/google.golang.org/grpc/peer");
	put_structure(f, PEER, name, package);
	put_structure(f, OTHER, name, put_name(f, "other/peer"));
	set_word(f, POINTER, 8);
	f->bytes[POINTER + 23] = 22 | 32;
	set_word(f, POINTER + 48, START + PEER);
	set_word(f, FIELDS, START + put_name(f, "Addr"));
	set_word(f, FIELDS + 24, START + put_name(f, "AuthInfo"));
	set_word(f, FIELDS + 40, minor <= 18 ? 32 : 16);
	return f;
}

static const char package[] = "google.golang.org/grpc/peer";

static void a_structure_is_found_by_its_package_and_name(void **state)
{
	struct fixture *f = make(22);

	assert_int_equal(type_data_structure(&f->types, package, "peer.Peer"), START + PEER);
	assert_int_equal(type_data_structure(&f->types, "other/peer", "peer.Peer"), START + OTHER);
	assert_int_equal(type_data_structure(&f->types, "her/peer", "peer.Peer"), 0);
	assert_int_equal(type_data_structure(&f->types, package, "peer.Pee"), 0);
	assert_int_equal(type_data_pointer(&f->types, START + PEER), START + POINTER);
	assert_int_equal(type_data_pointer(&f->types, START + OTHER), 0);
}

/* Neither of two of one name is taken. */
static void of_two_there_is_none(void **state)
{
	struct fixture *f = make(22);

	memcpy(f->bytes + OTHER, f->bytes + PEER, 96);
	assert_int_equal(type_data_structure(&f->types, package, "peer.Peer"), 0);
}

static void fields_have_offsets(void **state)
{
	static const int minors[] = {17, 18, 19, 27};

	for (int i = 0; i < 4; i++) {
		struct fixture *f = make(minors[i]);
		uint32_t at = 7;

		assert_true(type_data_field(&f->types, START + PEER, "Addr", &at));
		assert_int_equal(at, 0);
		assert_true(type_data_field(&f->types, START + PEER, "AuthInfo", &at));
		assert_int_equal(at, 16);
		assert_false(type_data_field(&f->types, START + PEER, "Add", &at));
		assert_false(type_data_field(&f->types, START + POINTER, "Addr", &at));
		assert_false(type_data_field(&f->types, START + BYTES, "Addr", &at));
		set_word(f, FIELDS + 40, 1 << 20); /* beyond the structure */
		assert_false(type_data_field(&f->types, START + PEER, "AuthInfo", &at));
	}
}

/* Whatever the target has there. */
static void any_bytes_are_survived(void **state)
{
	srandom(1);
	for (int round = 0; round < 3000; round++) {
		struct fixture *f = make(22);
		uint64_t found;
		uint32_t at;

		for (int i = 0; i < 40; i++) {
			set_word(f, random() % (BYTES / 8) * 8, START + random() % (BYTES + 64));
			f->bytes[random() % BYTES] = random();
		}
		found = type_data_structure(&f->types, package, "peer.Peer");
		type_data_pointer(&f->types, found);
		type_data_field(&f->types, found ? found : START + (uint64_t)random() % BYTES,
				"Addr", &at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_structure_is_found_by_its_package_and_name),
		cmocka_unit_test(of_two_there_is_none),
		cmocka_unit_test(fields_have_offsets),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
