#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/descriptors.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/mapped_file.h"
#include "base/memory_room.h"
#include "base/mountinfo.h"
#include "base/outfile.h"
#include "base/permit.h"
#include "base/printable.h"
#include "base/strbuf.h"
#include "base/test_folder.h"
#include "base/unit_test.h"

static void error_keeps_its_code_when_wrapped(void **state)
{
	_cleanup_error_ struct error *err = error_format(ERROR_DENIED, "no %s", "way");

	err = error_wrap(err, "reading %d", 7);
	assert_int_equal(err->code, ERROR_DENIED);
	assert_string_equal(err->message, "reading 7: no way");
	assert_null(error_wrap(NULL, "nothing"));
}

static void static_errors_survive_destroy_and_wrap(void **state)
{
	_cleanup_error_ struct error *err = error_wrap(&error_fault, "g 7");

	assert_int_equal(err->code, ERROR_FAULT);
	assert_true(error_dropped(&error_fault));
	assert_string_equal(error_fault.message, "cannot read the memory of the target");
	assert_false(error_dropped(NULL));
}

/* As kernels before 5.9 are. */
static bool forbid_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {ARRAY_SIZE(code), code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) && close_range(9, 9, 0) &&
	       errno == ENOSYS;
}

/* In a child: its exit status says which descriptors were right, in bits. */
static int keep_two(int a, int b, bool is_old_kernel)
{
	int status;
	pid_t child = fork();

	if (!child) {
		int file = open("/proc/self/status", O_RDONLY), wrong = 0;

		for (int fd = 5; fd < 40; fd += 5)
			dup2(file, fd);
		close(file);
		if (is_old_kernel && !forbid_close_range())
			_exit(100);
		descriptors_keep(a, b);
		for (int fd = 3; fd < 64; fd++)
			wrong += (fcntl(fd, F_GETFD) >= 0) != (fd == a || fd == b);
		for (int fd = 0; fd < 3; fd++)
			wrong += lseek(fd, 0, SEEK_END) != 0; /* /dev/null has that */
		_exit(wrong);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static void only_the_wanted_descriptors_stay_open(void **state)
{
	for (int old = 0; old < 2; old++) {
		assert_int_equal(keep_two(10, 30, old), 0);
		assert_int_equal(keep_two(35, 5, old), 0);
		assert_int_equal(keep_two(20, 20, old), 0);
	}
}

static void cursor_stops_at_the_end_and_stays_failed(void **state)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 5};
	struct cursor c = cursor_of(bytes, sizeof(bytes), "five bytes");
	_cleanup_error_ struct error *err = NULL;

	assert_int_equal(cursor_u32(&c), 0x04030201);
	assert_null(cursor_error(&c));
	assert_int_equal(cursor_u32(&c), 0);
	assert_int_equal(cursor_u8(&c), 0);
	err = cursor_error(&c);
	assert_non_null(err);
	assert_string_equal(err->message, "five bytes is truncated or damaged at byte 4");
}

static void cursor_reads_varints_of_any_length(void **state)
{
	static const uint8_t good[] = {0x96, 0x01, 0x7f, 0xff, 0xff, 0xff, 0xff,
				       0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					  0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	struct cursor c = cursor_of(good, sizeof(good), "good");

	assert_int_equal(cursor_uvarint(&c), 150);
	assert_int_equal(cursor_uvarint(&c), 127);
	assert_true(cursor_uvarint(&c) == UINT64_MAX);
	assert_false(c.failed);
	c = cursor_of(endless, sizeof(endless), "endless");
	cursor_uvarint(&c);
	assert_true(c.failed);
}

static void cursor_refuses_a_string_without_end(void **state)
{
	struct cursor c = cursor_of("ab\0cd", 5, "strings");

	assert_string_equal(cursor_string(&c), "ab");
	assert_null(cursor_string(&c));
	assert_true(c.failed);
}

static void map_finds_what_was_put_through_growth(void **state)
{
	struct map map = {0};

	for (uint64_t i = 0; i < 10000; i++)
		*map_at(&map, i * 0x100000000ull) = i;
	assert_int_equal(map.count, 10000);
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(*map_find(&map, i * 0x100000000ull), i);
	assert_null(map_find(&map, 12345));
	map_release(&map);
}

/* The mean distance of a key from the slot where its search begins. */
static double mean_distance(const struct map *map)
{
	size_t mask = map->capacity - 1, sum = 0;

	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].key != MAP_NO_KEY)
			sum += (i - (hash_u64(map->slots[i].key) & mask)) & mask;
	return (double)sum / map->count;
}

/* The key whose hash is `hash` without a seed: of x ^ x >> 32 times a constant, then h ^ h >> 29.
 */
static uint64_t key_of_hash(uint64_t hash)
{
	uint64_t constant = 0x9e3779b97f4a7c15ull, inverse = constant;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - constant * inverse;
	hash ^= hash >> 29 ^ hash >> 58;
	hash *= inverse;
	return hash ^ hash >> 32;
}

/* Keys that a program chose so that all belong in one slot of a map without a seed. */
static void chosen_keys_do_not_meet(void **state)
{
	struct map by_hash = {0}, by_high_bits = {0}, by_address = {0};

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t high = i << 45;

		*map_at(&by_hash, key_of_hash(i << 32)) = i;
		/* Their product with any number has the same low bits. */
		*map_at(&by_high_bits, high ^ high >> 32) = i;
		*map_at(&by_address, 0xc000000000 + i * 4096) = i;
	}
	assert_true(by_hash.count == 20000 && by_high_bits.count == 20000);
	assert_true(mean_distance(&by_hash) < 4);
	assert_true(mean_distance(&by_high_bits) < 4);
	assert_true(mean_distance(&by_address) < 4);
	map_release(&by_hash);
	map_release(&by_high_bits);
	map_release(&by_address);
}

/* Whatever the seed. */
static void keys_in_a_row_do_not_meet(void **state)
{
	const struct hash_seed ours = hash_seed;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct map map = {0};

		hash_set_seed(seed);
		for (uint64_t i = 0; i < 12000; i++)
			*map_at(&map, 5000 + i) = i;
		assert_true(mean_distance(&map) < 2);
		map_release(&map);
	}
	hash_seed = ours;
}

/* As hash_bytes() of 16 bytes would be without a seed. */
static uint64_t unseeded(uint64_t x)
{
	x = (x ^ x >> 32) * 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

static void chosen_texts_do_not_meet(void **state)
{
	struct map hashes = {0};

	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t words[] = {i, unseeded(16 ^ i)};

		map_at(&hashes, hash_bytes(words, sizeof(words)));
	}
	assert_int_equal(hashes.count, 1000);
	map_release(&hashes);
}

static void each_process_has_another_hash(void **state)
{
	const struct hash_seed ours = hash_seed;

	assert_true(ours.add && ours.multiply > UINT32_MAX && ours.multiply & 1);
	hash_set_seed(1);
	assert_memory_not_equal(&ours, &hash_seed, sizeof(ours));
	hash_seed = ours;
}

static void sorted_keys_are_in_order(void **state)
{
	struct map map = {0};
	uint64_t *keys;

	assert_null(map_sorted_keys(&map));
	for (uint64_t i = 0; i < 1000; i++)
		*map_at(&map, i * 0x9e3779b97f4a7c15ull) = i;
	map_remove(&map, 0);
	keys = map_sorted_keys(&map);
	assert_non_null(keys);
	for (size_t i = 1; i < map.count; i++)
		assert_true(keys[i - 1] < keys[i]);
	assert_true(keys[0] && map_find(&map, keys[map.count - 1]));
	free(keys);
	map_release(&map);
}

static void map_takes_every_key(void **state)
{
	struct map map = {0};

	for (uint64_t i = 0; i < 1000; i++)
		*map_at(&map, MAP_NO_KEY) = i;
	*map_at(&map, 5) = 6;
	assert_int_equal(map.count, 2);
	assert_int_equal(*map_find(&map, MAP_NO_KEY), 999);
	map_remove(&map, MAP_NO_KEY);
	assert_null(map_find(&map, MAP_NO_KEY));
	assert_int_equal(*map_find(&map, 5), 6);
	map_release(&map);
}

static void map_keeps_the_others_when_some_are_removed(void **state)
{
	struct map map = {0};

	map_remove(&map, 1);
	for (uint64_t i = 0; i < 20000; i++)
		*map_at(&map, i * 7) = i;
	for (uint64_t i = 0; i < 20000; i += 3)
		map_remove(&map, i * 7);
	map_remove(&map, 1);
	assert_int_equal(map.count, 20000 - 6667);
	for (uint64_t i = 0; i < 20000; i++) {
		const uint64_t *value = map_find(&map, i * 7);

		assert_true(i % 3 ? value && *value == i : !value);
	}
	map_release(&map);
}

static size_t mapped_bytes(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu", &pages), 1);
	return pages * sysconf(_SC_PAGESIZE);
}

static void an_arena_is_given_back_whole(void **state)
{
	struct arena a = {0};
	size_t before = mapped_bytes();
	char *first = arena_copy(&a, "first", 5), *large;

	assert_string_equal(first, "first");
	assert_string_equal(arena_copy(&a, "", 0), "");
	assert_true(a.mapped <= 4096);
	for (int i = 0; i < 100000; i++)
		assert_non_null(memset(arena_take(&a, 100), 'x', 100));
	large = arena_take(&a, 3 << 20);
	assert_non_null(memset(large, 'y', 3 << 20));
	assert_in_range(a.mapped, 13000000, 15000000);
	assert_true(mapped_bytes() - before >= 13000000);
	assert_string_equal(first, "first");
	assert_null(arena_take(&a, SIZE_MAX));
	arena_release(&a);
	assert_true(mapped_bytes() - before < 1 << 20);
	assert_string_equal(arena_copy(&a, "again", 5), "again");
	arena_release(&a);
}

static void intern_gives_equal_strings_one_number(void **state)
{
	struct intern in = {0};
	char text[16];

	assert_int_equal(intern_string(&in, ""), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "s%d", i);
		assert_int_equal(intern_string(&in, text), i + 1);
	}
	assert_int_equal(intern_string(&in, "s500"), 501);
	assert_int_equal(intern_bytes(&in, "a\0b", 3), 1001);
	assert_string_equal(intern_get(&in, 501), "s500");
	assert_int_equal(intern_find(&in, "s500", 4), 501);
	assert_int_equal(intern_find(&in, "none", 4), INTERN_FAILED);
	assert_int_equal(in.count, 1002);
	intern_release(&in);
}

static void uvarints_are_read_as_they_were_written(void **state)
{
	static const uint64_t values[] = {0,     1,          127,        128,       300,
					  16383, 1ull << 32, 1ull << 63, UINT64_MAX};
	struct strbuf sb = STRBUF_INIT;
	struct cursor c;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		strbuf_add_uvarint(&sb, values[i]);
	c = cursor_of(sb.data, sb.length, "what was written");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_int_equal(cursor_uvarint(&c), values[i]);
	assert_ptr_equal(c.at, c.end);
	assert_memory_equal(sb.data, "\0\1\x7f\x80\1\xac\2", 7);
	strbuf_release(&sb);
}

static void strbuf_grows_and_formats(void **state)
{
	struct strbuf sb = STRBUF_INIT;

	assert_string_equal(sb.data, "");
	for (int i = 0; i < 100; i++)
		strbuf_addf(&sb, "%02d,", i);
	strbuf_addu(&sb, 18446744073709551615ul);
	strbuf_addx(&sb, 0xc00001d0);
	assert_int_equal(sb.length, 300 + 20 + 8);
	assert_string_equal(sb.data + 300, "18446744073709551615c00001d0");
	strbuf_reset(&sb);
	assert_string_equal(sb.data, "");
	strbuf_release(&sb);
}

static void unprintable_bytes_are_escaped(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"main.f[...] \xc3\xa9 \xe4\xb8\x96 \xf0\x9f\x98\x80 \\", NULL},
		{"\x1b[31m\a\x7f", "\\x1b[31m\\x07\\x7f"},
		{"a\nb\rc\td", "a\\nb\\rc\\td"},
		{"\xc2\x9b"
		 "31m \xe2\x80\xae \xef\xbb\xbf",
		 "\\u009b31m \\u202e \\ufeff"},
		{"\xf3\xa0\x81\xa1", "\\U000e0061"},
		{"\xff \xe2\x80", "\\xff \\xe2\\x80"},
	};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		strbuf_reset(&sb);
		printable_adds(&sb, cases[i].text);
		assert_string_equal(sb.data, cases[i].expected ?: cases[i].text);
	}
	strbuf_reset(&sb);
	printable_add(&sb, "a\0b", 3);
	assert_string_equal(sb.data, "a\\x00b");
}

static void a_line_and_json_keep_their_form(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	printable_line(out, "%s|%5d", "x\ny", 7);
	printable_write_json("{\n\"\xe2\x80\xae\xf3\xa0\x81\xa1\x7f\"\n}", out);
	fclose(out);
	assert_string_equal(text, "x\\ny|    7\n{\n\"\\u202e\\udb40\\udc61\\u007f\"\n}");
}

static void outfile_appears_only_when_committed(void **state)
{
	_cleanup_outfile_ struct outfile out = {0};
	struct stat st;

	assert_null(outfile_open("result", &out));
	fputs("whole", out.stream);
	assert_int_equal(stat("result", &st), -1);
	assert_null(outfile_commit(&out));
	assert_int_equal(stat("result", &st), 0);
	assert_int_equal(st.st_size, 5);
}

static size_t files_here(void)
{
	DIR *dir = opendir(".");
	size_t count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2; /* . and .. */
}

static void outfile_leaves_nothing_when_abandoned(void **state)
{
	struct outfile out = {0};

	assert_null(outfile_open("never", &out));
	fputs("lost", out.stream);
	fflush(out.stream);
	outfile_abandon(&out);
	assert_int_equal(files_here(), 0);
}

static void a_growing_outfile_has_a_name_of_its_own_until_it_is_complete(void **state)
{
	_cleanup_outfile_ struct outfile out = {0}, other = {0};
	struct error *err;

	assert_null(outfile_open_growing("grows", &out));
	assert_int_equal(access("grows.partial", F_OK), 0);
	err = outfile_open_growing("grows", &other);
	assert_non_null(err);
	error_destroy(err);
	fputs("whole", out.stream);
	assert_null(outfile_commit(&out));
	assert_int_equal(access("grows", F_OK), 0);
	assert_int_equal(files_here(), 1);
}

static void outfile_leaves_nothing_when_killed(void **state)
{
	pid_t pid = fork();

	if (!pid) {
		struct outfile out = {0};

		if (error_dropped(outfile_open("never", &out)))
			_exit(1);
		fputs("lost", out.stream);
		fflush(out.stream);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	assert_int_equal(files_here(), 0);
}

static void outfile_replaces_what_was_there(void **state)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_fclose_ FILE *f = fopen("result", "w");
	struct stat st;

	fputs("what was there before", f);
	assert_null(outfile_open("result", &out));
	fputs("new", out.stream);
	assert_null(outfile_commit(&out));
	assert_int_equal(stat("result", &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(files_here(), 1);
}

static void a_new_outfile_replaces_nothing(void **state)
{
	static const char *const folders[] = {"", NULL}, *const endings[] = {".x", NULL};
	const struct outfile_rule rule = {folders, endings};
	_cleanup_outfile_ struct outfile out = {0};
	struct error *err = outfile_open_new("result", &rule, &out);

	assert_non_null(err);
	error_destroy(err);
	assert_null(outfile_open_new("result.x", &rule, &out));
	fputs("new", out.stream);
	/* Somebody takes the name meanwhile. */
	assert_int_equal(symlink("/dev/null", "result.x"), 0);
	err = outfile_commit(&out);
	assert_non_null(strstr(err->message, "it exists already"));
	error_destroy(err);
	outfile_abandon(&out);
	assert_int_equal(unlink("result.x"), 0);
	assert_null(outfile_open_new("result.x", &rule, &out));
	assert_null(outfile_commit(&out));
	outfile_abandon(&out);
	err = outfile_open_new("result.x", &rule, &out);
	assert_non_null(strstr(err->message, "it exists already"));
	error_destroy(err);
}

static void outfile_says_when_the_disk_is_full(void **state)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_error_ struct error *err = NULL;

	assert_null(outfile_open("/dev/full", &out));
	fputs("lost", out.stream);
	err = outfile_commit(&out);
	assert_non_null(err);
	assert_non_null(strstr(err->message, "no space left on device"));
}

static void outfile_says_when_the_folder_is_missing(void **state)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_error_ struct error *err = outfile_open("no/such/folder/file", &out);

	assert_non_null(err);
	assert_non_null(strstr(err->message, "its directory does not exist"));
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	if (!mapped_file_repair(info->si_addr))
		signal(SIGBUS, SIG_DFL);
}

static void repair_files(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	permit_only(PERMIT_MAPPING);
	sigaction(SIGBUS, &action, NULL);
}

#define MAPPED_BYTES (1 << 20)

/* A file full of ones. */
static int make_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	_cleanup_free_ uint8_t *ones = malloc(MAPPED_BYTES);

	memset(ones, 1, MAPPED_BYTES);
	assert_int_equal(write(fd, ones, MAPPED_BYTES), MAPPED_BYTES);
	return fd;
}

static size_t ones_of(const struct mapped_file *file)
{
	const volatile uint8_t *bytes = mapped_file_bytes(file);
	size_t ones = 0;

	for (size_t i = 0; i < MAPPED_BYTES; i++)
		ones += bytes[i];
	return ones;
}

static void a_truncated_file_is_an_error_and_zeros(void **state)
{
	_cleanup_error_ struct error *err = NULL;
	_cleanup_close_ int fd = make_file("program");
	struct mapped_file *file, *whole;

	repair_files();
	assert_null(mapped_file_open(fd, MAPPED_BYTES, "program", &file));
	assert_null(mapped_file_open(fd, 10, "beginning", &whole));
	assert_int_equal(ones_of(file), MAPPED_BYTES);
	assert_null(mapped_file_check(file, NULL));
	assert_int_equal(ftruncate(fd, 3 * 4096 + 5), 0);
	assert_int_equal(ones_of(file), 3 * 4096 + 5);
	err = mapped_file_check(file, error_format(ERROR_FAILED, "nonsense"));
	assert_non_null(err);
	assert_string_equal(err->message, "program was truncated while gospect read it; if a build "
					  "is running, try again after it");
	assert_null(mapped_file_check(whole, NULL));
	mapped_file_close(whole);
	mapped_file_close(file);
	assert_false(mapped_file_unreported());
}

static void a_fault_outside_of_all_files_is_not_mended(void **state)
{
	_cleanup_close_ int fd = make_file("program");
	struct mapped_file *file;
	uint8_t *bytes;
	int status;
	pid_t pid;

	assert_null(mapped_file_open(fd, MAPPED_BYTES, "program", &file));
	bytes = mmap(NULL, MAPPED_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_false(mapped_file_repair(bytes));
	pid = fork();
	if (!pid) {
		repair_files();
		_exit(*(volatile uint8_t *)bytes);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status)); /* a sanitizer exits */
	munmap(bytes, MAPPED_BYTES);
	mapped_file_close(file);
}

static void *read_often(void *path)
{
	_cleanup_close_ int fd = make_file(path);

	for (int i = 0; i < 100; i++) {
		struct mapped_file *file;

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(ftruncate(fd, MAPPED_BYTES), 0);
		assert_null(mapped_file_open(fd, MAPPED_BYTES, "file", &file));
		assert_int_equal(ftruncate(fd, i * 1000), 0);
		assert_int_equal(ones_of(file), 0);
		error_destroy(mapped_file_check(file, NULL));
		mapped_file_close(file);
	}
	return NULL;
}

static void two_threads_read_truncated_files(void **state)
{
	pthread_t thread;

	repair_files();
	assert_int_equal(pthread_create(&thread, NULL, read_often, "a"), 0);
	read_often("b");
	pthread_join(thread, NULL);
	assert_false(mapped_file_unreported());
}

static void a_truncation_that_nothing_ran_into_is_noticed(void **state)
{
	_cleanup_error_ struct error *err = NULL;
	_cleanup_close_ int fd = make_file("program");
	struct mapped_file *file;

	repair_files();
	assert_null(mapped_file_open(fd, MAPPED_BYTES, "program", &file));
	mapped_file_probe(file);
	assert_null(mapped_file_check(file, NULL));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_null(mapped_file_check(file, NULL));
	mapped_file_probe(file);
	err = mapped_file_check(file, NULL);
	assert_non_null(err);
	mapped_file_close(file);
}

static void an_unreported_truncation_is_remembered(void **state)
{
	_cleanup_close_ int fd = make_file("program");
	struct mapped_file *file;

	repair_files();
	assert_null(mapped_file_open(fd, MAPPED_BYTES, "program", &file));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ones_of(file), 0);
	mapped_file_close(file);
	assert_true(mapped_file_unreported());
}

/* Without a handler: it would be SIGBUS to touch a mapping of the file. */
static void file_without_a_sigbus_handler_is_read_at_open(void **state)
{
	_cleanup_error_ struct error *err = NULL;
	_cleanup_close_ int fd = make_file("program");
	struct mapped_file *file, *late;

	signal(SIGBUS, SIG_DFL);
	permit_only(0);
	assert_null(mapped_file_open(fd, MAPPED_BYTES, "program", &file));
	assert_int_equal(ftruncate(fd, 4096 + 5), 0);
	assert_int_equal(ones_of(file), MAPPED_BYTES);
	assert_false(mapped_file_repair(mapped_file_bytes(file)));
	assert_null(mapped_file_check(file, NULL));
	mapped_file_close(file);

	assert_null(mapped_file_open(fd, MAPPED_BYTES, "program", &late));
	assert_int_equal(ones_of(late), 4096 + 5);
	err = mapped_file_check(late, NULL);
	assert_non_null(err);
	assert_string_equal(err->message, "program was truncated while gospect read it; if a build "
					  "is running, try again after it");
	mapped_file_close(late);
}

static void put_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void make_group(const char *path, const char *limit, const char *usage)
{
	char name[128];

	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(name, sizeof(name), "%s/memory.max", path);
	put_file(name, limit);
	snprintf(name, sizeof(name), "%s/memory.current", path);
	put_file(name, usage);
	snprintf(name, sizeof(name), "%s/memory.stat", path);
	put_file(name, "anon 1\ninactive_file 20\nactive_file 3\n");
}

static void room_for_memory_is_that_of_the_fullest_group_around(void **state)
{
	put_file("groups", "1:name=systemd:/\n0::/pod/container\n");
	assert_true(memory_room_in("groups", ".") == UINT64_MAX);
	make_group("pod", "1000\n", "300\n");
	make_group("pod/container", "max\n", "10\n");
	assert_int_equal(memory_room_in("groups", "."), 720);
	put_file("pod/container/memory.max", "110\n");
	assert_int_equal(memory_room_in("groups", "."), 110);
	put_file("pod/container/memory.current", "500\n");
	assert_int_equal(memory_room_in("groups", "."), 0);
}

static void the_fullest_group_has_its_limit_and_what_counts_against_it(void **state)
{
	struct memory_group g;

	put_file("groups", "0::/pod/container\n");
	assert_false(memory_group_in("groups", ".", &g));
	make_group("pod", "1000\n", "300\n");
	put_file("pod/memory.stat", "anon 5\ninactive_file 20\n");
	make_group("pod/container", "max\n", "10\n");
	assert_true(memory_group_in("groups", ".", &g));
	assert_int_equal(g.limit, 1000);
	assert_int_equal(g.used, 280);
	/* Version 1 has a number where there is no limit. */
	put_file("pod/memory.max", "9223372036854771712\n");
	assert_false(memory_group_in("groups", ".", &g));
}

static void mounts_are_read_whatever_stands_between_their_fields(void **state)
{
	struct mount_entry m;
	_cleanup_fclose_ FILE *f = NULL;

	put_file("mounts", "22 1 0:20 / /proc rw,noexec - proc proc rw,hidepid=2\n"
			   "no mount at all\n"
			   "33 24 0:28 /a\\040b /c\\040d rw shared:9 master:1 - cgroup2 none rw\n");
	f = fopen("mounts", "re");
	assert_true(mountinfo_next(f, &m));
	assert_string_equal(m.point, "/proc");
	assert_string_equal(m.type, "proc");
	assert_string_equal(m.options, "rw,hidepid=2");
	assert_true(mountinfo_next(f, &m));
	assert_string_equal(m.root, "/a\\040b");
	assert_string_equal(m.point, "/c\\040d");
	assert_string_equal(m.type, "cgroup2");
	assert_false(mountinfo_next(f, &m));
}

static void a_group_is_left_up_to_the_outermost(void **state)
{
	char path[] = "/sys/a/b", outermost[] = "/";

	assert_true(cgroup_leave(path, 4));
	assert_string_equal(path, "/sys/a");
	assert_true(cgroup_leave(path, 4));
	assert_string_equal(path, "/sys");
	assert_false(cgroup_leave(path, 4));
	assert_true(cgroup_leave(outermost, 0));
	assert_false(cgroup_leave(outermost, 0));
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OUTER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void a_container_is_found_by_the_name_of_its_group(void **state)
{
	static const struct {
		const char *file, *container;
	} cases[] = {
		{"0::/system.slice/docker-" ID ".scope\n", ID},
		{"12:pids:/docker/" ID "\n1:name=systemd:/\n0::/\n", ID},
		{"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1b2c_3d.slice/"
		 "cri-containerd-" ID ".scope\n",
		 ID},
		{"0::/kubepods/burstable/pod01234567-89ab-cdef-0123-456789abcdef/" ID "\n", ID},
		{"0::/system.slice/kubepods-pod1.slice:cri-containerd:" ID "\n", ID},
		{"0::/../crio-" ID ".scope/container\n", ID},
		{"0::/machine.slice/libpod-" ID ".scope/container\n", ID},
		{"0::/docker/" OUTER "/docker/" ID "\n", ID},
		{"0::/machine.slice/machine-web\\x2d1.scope/payload\n", "web-1"},
		{"0::/machine.slice/systemd-nspawn@db.service/payload\n", "db"},
		{"0::/lxc.payload.web/init.scope\n", "web"},
		{"0::/\n", NULL},
		{"0::/user.slice/user-1000.slice/session-3.scope\n", NULL},
		{"0::/user.slice/vte-spawn-01234567-89ab-cdef-0123-456789abcdef.scope\n", NULL},
		{"0::/kubepods/burstable/pod01234567-89ab-cdef-0123-456789abcdef\n", NULL},
		{"0::/machine.slice/machine-.scope\n", NULL},
		{"no group\n:\n", NULL},
	};
	char found[CGROUP_CONTAINER_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put_file("group", cases[i].file);
		*found = '\0';
		assert_int_equal(cgroup_container("group", NULL, found), !!cases[i].container);
		assert_string_equal(found, cases[i].container ?: "");
	}
	put_file("group", "0::/docker/" OUTER "/docker/" ID "\n");
	assert_true(cgroup_container("group", "fedc", found));
	assert_string_equal(found, OUTER);
	assert_true(cgroup_container("group", "0123456789ab", found));
	assert_string_equal(found, ID);
	assert_false(cgroup_container("group", "123456789abc", found));
	assert_false(cgroup_container("no such file", NULL, found));
}

static void room_for_memory_in_a_container_is_that_of_what_is_mounted(void **state)
{
	put_file("groups", "5:cpu,memory:/docker/4711\n4:memoryless:/\n");
	assert_int_equal(mkdir("memory", 0700), 0);
	put_file("memory/memory.limit_in_bytes", "500");
	put_file("memory/memory.usage_in_bytes", "100");
	put_file("memory/memory.stat", "total_inactive_file 7\n");
	assert_int_equal(memory_room_in("groups", "."), 407);
	assert_true(memory_room_in("nothing", ".") == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_keeps_its_code_when_wrapped),
		cmocka_unit_test(static_errors_survive_destroy_and_wrap),
		cmocka_unit_test(cursor_stops_at_the_end_and_stays_failed),
		cmocka_unit_test(cursor_reads_varints_of_any_length),
		cmocka_unit_test(cursor_refuses_a_string_without_end),
		cmocka_unit_test(map_finds_what_was_put_through_growth),
		cmocka_unit_test(chosen_keys_do_not_meet),
		cmocka_unit_test(chosen_texts_do_not_meet),
		cmocka_unit_test(keys_in_a_row_do_not_meet),
		cmocka_unit_test(each_process_has_another_hash),
		cmocka_unit_test(sorted_keys_are_in_order),
		cmocka_unit_test(map_takes_every_key),
		cmocka_unit_test(map_keeps_the_others_when_some_are_removed),
		cmocka_unit_test(an_arena_is_given_back_whole),
		cmocka_unit_test(intern_gives_equal_strings_one_number),
		cmocka_unit_test(uvarints_are_read_as_they_were_written),
		cmocka_unit_test(strbuf_grows_and_formats),
		cmocka_unit_test(unprintable_bytes_are_escaped),
		cmocka_unit_test(only_the_wanted_descriptors_stay_open),
		cmocka_unit_test(a_line_and_json_keep_their_form),
		TEST_IN_FOLDER(outfile_appears_only_when_committed),
		TEST_IN_FOLDER(outfile_leaves_nothing_when_abandoned),
		TEST_IN_FOLDER(a_growing_outfile_has_a_name_of_its_own_until_it_is_complete),
		TEST_IN_FOLDER(outfile_leaves_nothing_when_killed),
		TEST_IN_FOLDER(outfile_replaces_what_was_there),
		TEST_IN_FOLDER(a_new_outfile_replaces_nothing),
		TEST_IN_FOLDER(outfile_says_when_the_disk_is_full),
		TEST_IN_FOLDER(outfile_says_when_the_folder_is_missing),
		TEST_IN_FOLDER(a_truncated_file_is_an_error_and_zeros),
		TEST_IN_FOLDER(a_fault_outside_of_all_files_is_not_mended),
		TEST_IN_FOLDER(two_threads_read_truncated_files),
		TEST_IN_FOLDER(file_without_a_sigbus_handler_is_read_at_open),
		TEST_IN_FOLDER(a_truncation_that_nothing_ran_into_is_noticed),
		TEST_IN_FOLDER(an_unreported_truncation_is_remembered),
		TEST_IN_FOLDER(the_fullest_group_has_its_limit_and_what_counts_against_it),
		TEST_IN_FOLDER(room_for_memory_is_that_of_the_fullest_group_around),
		TEST_IN_FOLDER(room_for_memory_in_a_container_is_that_of_what_is_mounted),
		TEST_IN_FOLDER(mounts_are_read_whatever_stands_between_their_fields),
		cmocka_unit_test(a_group_is_left_up_to_the_outermost),
		cmocka_unit_test(a_container_is_found_by_the_name_of_its_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
