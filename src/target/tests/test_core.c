/* Core files that the test makes byte by byte: valid, truncated and corrupt ones. */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/unit_test.h"
#include "target/target.h"

#define TEXT 0x400000ull
#define DATA 0x500000ull
#define NEXT (DATA + 0x2000)
#define STACK 0x7ffff000ull
#define NOTES 0x800
#define BYTES 0x1000
#define CORE_SIZE (BYTES + 0x4000)

struct made_core {
	uint8_t bytes[CORE_SIZE];
	size_t note_end;
};

static void put(struct made_core *m, const void *bytes, size_t size)
{
	assert_true(m->note_end + size <= BYTES);
	memcpy(m->bytes + m->note_end, bytes, size);
	m->note_end += (size + 3) & ~3ul;
}

static void put_note(struct made_core *m, uint32_t type, const void *desc, uint32_t size)
{
	uint32_t header[3] = {5, size, type};

	put(m, header, sizeof(header));
	put(m, "CORE", 5);
	put(m, desc, size);
}

static void put_thread(struct made_core *m, uint16_t machine, int32_t id, uint64_t pc)
{
	uint64_t status[48] = {0};
	uint64_t *registers = status + 14;

	((uint16_t *)status)[6] = SIGABRT;
	((int32_t *)status)[8] = id;
	registers[machine == EM_X86_64 ? 16 : 32] = pc;
	registers[machine == EM_X86_64 ? 19 : 31] = pc + 1;
	registers[machine == EM_X86_64 ? 4 : 29] = pc + 2;
	registers[machine == EM_X86_64 ? 15 : 30] = pc + 3;
	put_note(m, NT_PRSTATUS, status, machine == EM_X86_64 ? 336 : 392 - 8);
}

static void put_notes(struct made_core *m, uint16_t machine)
{
	static const char names[] = "/usr/bin/made\0/usr/bin/made (deleted)";
	uint64_t mapped[2 + 6] = {2, 0x1000, TEXT, TEXT + 0x1000, 0, DATA, NEXT, 1};
	uint64_t auxv[] = {AT_ENTRY, TEXT + 0x40, AT_EXECFN, STACK + 16, AT_NULL, 0};
	uint8_t info[136] = {0}, file[sizeof(mapped) + sizeof(names)];
	int32_t signal[32] = {SIGABRT, 0, -6, 0, 4711};

	memcpy(info + 24, &(int32_t){4711}, 4);
	memcpy(info + 40, "made", 4);
	memcpy(file, mapped, sizeof(mapped));
	memcpy(file + sizeof(mapped), names, sizeof(names));
	m->note_end = NOTES;
	put_thread(m, machine, 4712, 0x1234);
	put_note(m, NT_PRPSINFO, info, sizeof(info));
	put_note(m, NT_SIGINFO, signal, sizeof(signal));
	put_note(m, NT_AUXV, auxv, sizeof(auxv));
	put_note(m, NT_FILE, file, sizeof(file));
	put_thread(m, machine, 4713, 0x5678);
}

static void made_core_init(struct made_core *m, uint16_t machine)
{
	Elf64_Ehdr h = {.e_type = ET_CORE,
			.e_machine = machine,
			.e_phoff = sizeof(h),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 5};
	Elf64_Phdr p[] = {
		{PT_NOTE, 0, NOTES, 0, 0, 0, 0, 4},
		{PT_LOAD, PF_R | PF_X, BYTES, TEXT, 0, 0, 0x1000, 0x1000},
		{PT_LOAD, PF_R | PF_W, BYTES, DATA, 0, 0x2000, 0x2000, 0x1000},
		{PT_LOAD, PF_R | PF_W, BYTES + 0x3000, STACK, 0, 0x1000, 0x1000, 0x1000},
		{PT_LOAD, PF_R | PF_W, BYTES + 0x2000, NEXT, 0, 0x1000, 0x1000, 0x1000},
	};

	memset(m, 0, sizeof(*m));
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	put_notes(m, machine);
	p[0].p_filesz = m->note_end - NOTES;
	memcpy(m->bytes, &h, sizeof(h));
	memcpy(m->bytes + sizeof(h), p, sizeof(p));
	for (size_t i = BYTES; i < CORE_SIZE; i++)
		m->bytes[i] = i >> 4;
	strcpy((char *)m->bytes + BYTES + 0x3010, "/bin/executed");
}

/* Opens the first `size` bytes as a core file. */
static struct error *open_bytes(const void *bytes, size_t size, struct target **ret)
{
	char path[] = "/tmp/test_core.XXXXXX";
	struct error *err;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	err = target_open_core(path, NULL, ret);
	unlink(path);
	return err;
}

static void memory_is_read_across_segments_and_not_where_it_is_left_out(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	struct made_core m;
	uint8_t bytes[0x3000];
	char text[5] = "";

	made_core_init(&m, EM_X86_64);
	assert_null(open_bytes(m.bytes, sizeof(m.bytes), &t));
	assert_null(target_read(t, DATA, bytes, sizeof(bytes)));
	assert_memory_equal(bytes, m.bytes + BYTES, sizeof(bytes));
	assert_ptr_equal(target_read(t, DATA + 1, bytes, sizeof(bytes)), &error_fault);
	assert_ptr_equal(target_read(t, DATA - 1, bytes, 2), &error_fault);
	assert_ptr_equal(target_read(t, UINT64_MAX, bytes, 2), &error_fault);
	assert_ptr_equal(target_read(t, TEXT, bytes, 4), &error_fault);
	assert_null(target_supply(t, &(struct target_range){TEXT, 5, "code"}));
	assert_null(target_read(t, TEXT, text, 4));
	assert_string_equal(text, "code");
	assert_ptr_equal(target_read(t, TEXT + 2, text, 4), &error_fault);
	assert_null(target_supply(t, &(struct target_range){DATA, 5, "data"}));
	assert_null(target_read(t, DATA, bytes, 4));
	assert_memory_equal(bytes, m.bytes + BYTES, 4);
}

static void ranges_are_read_up_to_the_first_hole(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	struct made_core m;
	char packed[12] = "";
	struct target_range ranges[] = {{STACK + 16, 4, NULL}, {STACK + 21, 4, NULL}, {8, 4, NULL}};
	size_t done;

	made_core_init(&m, EM_X86_64);
	assert_null(open_bytes(m.bytes, sizeof(m.bytes), &t));
	assert_null(target_read_packed(t, ranges, 3, packed, &done));
	assert_int_equal(done, 2);
	assert_memory_equal(packed, "/binexec", 8);
}

static void check_threads(uint16_t machine, uint64_t lr)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_free_ struct target_thread *threads = NULL;
	struct target_registers r;
	struct made_core m;
	size_t count;

	made_core_init(&m, machine);
	assert_null(open_bytes(m.bytes, sizeof(m.bytes), &t));
	assert_int_equal(target_core(t)->machine, machine);
	assert_null(target_threads(t, &threads, &count));
	assert_int_equal(count, 2);
	assert_int_equal(threads[0].id, 4712);
	assert_int_equal(threads[1].id, 4713);
	assert_true(target_registers(t, 4713, &r));
	assert_int_equal(r.pc, 0x5678);
	assert_int_equal(r.sp, 0x5679);
	assert_int_equal(r.fp, 0x567a);
	assert_int_equal(r.lr, lr);
	assert_int_equal(r.general[machine == EM_X86_64 ? 7 : 31], r.sp);
	assert_int_equal(r.general[machine == EM_X86_64 ? 6 : 29], r.fp);
	assert_false(target_registers(t, 4711, &r));
}

static void registers_of_amd64_are_where_they_are(void **state)
{
	check_threads(EM_X86_64, 0);
}

static void registers_of_arm64_are_where_they_are(void **state)
{
	check_threads(EM_AARCH64, 0x567b);
}

static void notes_tell_who_died_and_of_what(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	const struct target_core *core;
	struct made_core m;
	uint64_t entry;

	made_core_init(&m, EM_X86_64);
	assert_null(open_bytes(m.bytes, sizeof(m.bytes), &t));
	core = target_core(t);
	assert_int_equal(core->pid, 4711);
	assert_int_equal(target_pid(t), 0);
	assert_string_equal(core->command, "made");
	assert_int_equal(core->signal, SIGABRT);
	assert_int_equal(core->code, -6);
	assert_int_equal(core->sender, 4711);
	assert_int_equal(core->thread, 4712);
	assert_false(core->truncated);
	assert_null(target_entry(t, &entry));
	assert_int_equal(entry, TEXT + 0x40);
	assert_string_equal(target_exe_name(t), "/usr/bin/made");
	assert_int_equal(target_program_start(t), TEXT);
}

static void maps_have_the_names_of_files(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_maps_ struct target_maps maps = {0};
	const struct target_map *map;
	struct made_core m;

	made_core_init(&m, EM_X86_64);
	assert_null(open_bytes(m.bytes, sizeof(m.bytes), &t));
	assert_null(target_maps(t, &maps));
	assert_int_equal(maps.count, 4);
	map = target_maps_find(&maps, TEXT + 0x40);
	assert_string_equal(map->path, "/usr/bin/made");
	assert_true(map->executable && !map->writable && map->offset == 0);
	map = target_maps_find(&maps, DATA);
	assert_string_equal(map->path, "/usr/bin/made (deleted)");
	assert_int_equal(map->offset, 0x1000);
	assert_string_equal(target_maps_find(&maps, STACK)->path, "");
}

/* A core of a thread, and that many segments, each of two pages of a file. */
static struct error *open_many(uint32_t count, struct target **ret)
{
	size_t names = 16 + count * 24ull, file = names + count * 2;
	size_t tables = sizeof(Elf64_Ehdr) + (count + 1ull) * sizeof(Elf64_Phdr);
	_cleanup_free_ uint8_t *bytes = calloc(1, tables + NOTES + file);
	uint32_t head[] = {5, file, NT_FILE};
	uint64_t list[] = {count, 0x1000};
	uint8_t *at = bytes + tables;
	Elf64_Phdr *p = (void *)(bytes + sizeof(Elf64_Ehdr));
	struct made_core m;

	made_core_init(&m, EM_X86_64);
	((Elf64_Ehdr *)m.bytes)->e_phnum = count + 1;
	memcpy(bytes, m.bytes, sizeof(Elf64_Ehdr));
	m.note_end = NOTES;
	put_thread(&m, EM_X86_64, 1, TEXT);
	memcpy(at, m.bytes + NOTES, m.note_end - NOTES);
	at += m.note_end - NOTES;
	memcpy(at, head, sizeof(head));
	memcpy(at + 12, "CORE", 5);
	at += 20;
	memcpy(at, list, sizeof(list));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = TEXT + i * 0x3000, mapped[] = {start, start + 0x2000, i};

		p[i + 1] = (Elf64_Phdr){PT_LOAD, PF_R, tables, start, 0, 0, 0x2000, 0x1000};
		memcpy(at + 16 + 24 * i, mapped, sizeof(mapped));
		at[names + 2 * i] = 'a' + i % 26;
	}
	at += file;
	p[0] = (Elf64_Phdr){PT_NOTE, 0, tables, 0, 0, at - bytes - tables, 0, 4};
	return open_bytes(bytes, at - bytes, ret);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The CPU time of listing the maps, at best; all have their file. */
static uint64_t maps_ns(uint32_t count)
{
	_cleanup_target_ struct target *t = NULL;
	uint64_t least = UINT64_MAX;

	assert_null(open_many(count, &t));
	for (int round = 0; round < 3; round++) {
		_cleanup_maps_ struct target_maps maps = {0};
		uint64_t ns = cpu_ns();

		assert_null(target_maps(t, &maps));
		ns = cpu_ns() - ns;
		least = ns < least ? ns : least;
		assert_int_equal(maps.count, count);
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(maps.items[i].path[0], 'a' + i % 26);
			assert_int_equal(maps.items[i].offset, i * 0x1000ull);
		}
	}
	return least;
}

static void maps_of_many_segments_are_listed_in_time(void **state)
{
	uint64_t few = maps_ns(8000);

	assert_true(maps_ns(64000) < 3 * 8 * few);
}

/* Reads everything from a core whose headers may be wrong. */
static void look_at_everything(struct target *t)
{
	_cleanup_maps_ struct target_maps maps = {0};
	_cleanup_free_ struct target_thread *threads = NULL;
	struct target_registers r;
	uint64_t entry, word;
	size_t count;

	assert_null(target_threads(t, &threads, &count));
	for (size_t i = 0; i < count; i++)
		assert_true(target_registers(t, threads[i].id, &r));
	error_destroy(target_entry(t, &entry));
	error_destroy(target_maps(t, &maps));
	target_program_start(t);
	for (size_t i = 0; i < maps.count; i++) {
		error_destroy(target_read_u64(t, maps.items[i].start, &word));
		error_destroy(target_read_u64(t, maps.items[i].end - 8, &word));
		error_destroy(target_read_u64(t, maps.items[i].end - 4, &word));
	}
}

static void truncated_gives_what_is_there_or_an_error(void **state)
{
	struct made_core m;
	uint64_t word;

	made_core_init(&m, EM_X86_64);
	for (size_t size = 0; size <= CORE_SIZE; size += size < BYTES ? 7 : 512) {
		_cleanup_target_ struct target *t = NULL;
		_cleanup_error_ struct error *err = open_bytes(m.bytes, size, &t);

		if (err)
			continue;
		look_at_everything(t);
		assert_int_equal(target_core(t)->truncated, size < CORE_SIZE);
		assert_int_equal(error_dropped(target_read_u64(t, STACK + 0xff8, &word)),
				 size < CORE_SIZE);
		assert_int_equal(error_dropped(target_read_u64(t, DATA, &word)), size < BYTES + 8);
	}
}

static void wrong_bytes_do_no_harm(void **state)
{
	struct made_core m;

	srandom(1);
	for (int round = 0; round < 3000; round++) {
		_cleanup_target_ struct target *t = NULL;

		made_core_init(&m, round & 1 ? EM_X86_64 : EM_AARCH64);
		for (int k = 0; k < 1 + round % 4; k++) {
			size_t at = (size_t)random() % (random() % 3 ? 400 : m.note_end);

			m.bytes[at] = random() % 3 ? random() : 0xff;
		}
		if (!error_dropped(open_bytes(m.bytes, sizeof(m.bytes), &t)))
			look_at_everything(t);
	}
}

static void segment_count_comes_from_the_section_or_the_notes(void **state)
{
	struct made_core m;
	Elf64_Ehdr *h = (Elf64_Ehdr *)m.bytes;
	Elf64_Phdr *p = (Elf64_Phdr *)(m.bytes + sizeof(*h));
	Elf64_Shdr section = {.sh_info = 5};
	_cleanup_target_ struct target *t = NULL, *cut = NULL;

	made_core_init(&m, EM_X86_64);
	h->e_phnum = PN_XNUM;
	h->e_shoff = CORE_SIZE - sizeof(section);
	memcpy(m.bytes + h->e_shoff, &section, sizeof(section));
	assert_null(open_bytes(m.bytes, sizeof(m.bytes), &t));
	look_at_everything(t);
	p[0].p_offset = h->e_phoff + 5 * sizeof(*p);
	p[0].p_filesz += NOTES - p[0].p_offset;
	memmove(m.bytes + p[0].p_offset, m.bytes + NOTES, m.note_end - NOTES);
	p[0].p_filesz = m.note_end - NOTES;
	assert_null(open_bytes(m.bytes, CORE_SIZE - 1, &cut));
	assert_true(target_core(cut)->truncated);
	look_at_everything(cut);
}

static void zstd_is_unpacked_and_cut_off_counts_as_truncated(void **state)
{
	uint8_t packed[2 * CORE_SIZE];
	_cleanup_target_ struct target *t = NULL;
	struct made_core m;
	uint64_t word;
	size_t size;

	made_core_init(&m, EM_X86_64);
	size = ZSTD_compress(packed, sizeof(packed), m.bytes, sizeof(m.bytes), 1);
	assert_false(ZSTD_isError(size));
	assert_null(open_bytes(packed, size, &t));
	assert_false(target_core(t)->truncated);
	assert_int_equal(target_core(t)->size, CORE_SIZE);
	assert_null(target_read_u64(t, STACK + 0xff8, &word));
	for (size_t cut = 0; cut < size; cut += 5) {
		_cleanup_target_ struct target *part = NULL;

		if (error_dropped(open_bytes(packed, cut, &part)))
			continue;
		assert_true(target_core(part)->truncated);
		look_at_everything(part);
	}
}

/* A frame of a few bytes that asks for a window of 2 GB. */
/* A packed core of 100 KB may go on with gigabytes. */
static void zstd_is_unpacked_to_the_end_by_the_headers(void **state)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_free_ uint8_t *bytes = malloc(64u << 20);
	_cleanup_free_ uint8_t *packed = malloc(64u << 20);
	struct made_core m;
	size_t size;

	assert_true(bytes && packed);
	made_core_init(&m, EM_X86_64);
	memset(bytes, 1, 64u << 20);
	memcpy(bytes, m.bytes, sizeof(m.bytes));
	size = ZSTD_compress(packed, 64u << 20, bytes, 64u << 20, 1);
	assert_false(ZSTD_isError(size));
	assert_null(open_bytes(packed, size, &t));
	assert_true(target_core(t)->size <= sizeof(m.bytes));
	assert_false(target_core(t)->truncated);
}

static void zstd_of_no_core_is_not_unpacked(void **state)
{
	_cleanup_free_ uint8_t *bytes = calloc(1, 64u << 20);
	_cleanup_error_ struct error *err = NULL;
	uint8_t packed[1u << 16];
	struct target *t = NULL;
	size_t size;

	assert_non_null(bytes);
	size = ZSTD_compress(packed, sizeof(packed), bytes, 64u << 20, 1);
	assert_false(ZSTD_isError(size));
	err = open_bytes(packed, size, &t);
	assert_non_null(err);
}

static void a_fifo_is_no_core_file(void **state)
{
	_cleanup_error_ struct error *err = NULL;
	char path[] = "/tmp/test_core.XXXXXX";
	struct target *t = NULL;

	assert_non_null(mkdtemp(path));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	err = target_open_core(path, NULL, &t);
	unlink(path);
	assert_non_null(err);
	assert_non_null(strstr(err->message, "is not a regular file"));
}

static void zstd_may_not_ask_for_any_memory(void **state)
{
	static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0};
	struct target *t;
	_cleanup_error_ struct error *err = open_bytes(frame, sizeof(frame), &t);

	assert_non_null(err);
	assert_non_null(strstr(err->message, "more memory to decompress than its size justifies"));
}

static void file_that_is_not_a_core_is_reported(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *expected;
	} cases[] = {{"", 0, "empty"},
		     {"text", 4, "not a core file"},
		     {"\x1f\x8b\x08 and more", 12, "gzip"},
		     {"\xfd"
		      "7zXZ and more",
		      13, "xz"},
		     {"\x7f"
		      "ELF",
		      4, "truncated"}};
	struct made_core m;
	Elf64_Ehdr *h = (Elf64_Ehdr *)m.bytes;

	made_core_init(&m, EM_X86_64);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct target *t;
		_cleanup_error_ struct error *err = open_bytes(cases[i].bytes, cases[i].size, &t);

		assert_non_null(strstr(err->message, cases[i].expected));
	}
	for (int type = ET_REL; type <= ET_DYN; type++) {
		struct target *t;
		_cleanup_error_ struct error *err = NULL;

		h->e_type = type;
		err = open_bytes(m.bytes, sizeof(m.bytes), &t);
		assert_non_null(
			strstr(err->message, type == ET_REL ? "not a core file" : "is a program"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_read_across_segments_and_not_where_it_is_left_out),
		cmocka_unit_test(ranges_are_read_up_to_the_first_hole),
		cmocka_unit_test(registers_of_amd64_are_where_they_are),
		cmocka_unit_test(registers_of_arm64_are_where_they_are),
		cmocka_unit_test(notes_tell_who_died_and_of_what),
		cmocka_unit_test(maps_of_many_segments_are_listed_in_time),
		cmocka_unit_test(maps_have_the_names_of_files),
		cmocka_unit_test(truncated_gives_what_is_there_or_an_error),
		cmocka_unit_test(wrong_bytes_do_no_harm),
		cmocka_unit_test(segment_count_comes_from_the_section_or_the_notes),
		cmocka_unit_test(zstd_is_unpacked_and_cut_off_counts_as_truncated),
		cmocka_unit_test(zstd_may_not_ask_for_any_memory),
		cmocka_unit_test(zstd_is_unpacked_to_the_end_by_the_headers),
		cmocka_unit_test(zstd_of_no_core_is_not_unpacked),
		cmocka_unit_test(a_fifo_is_no_core_file),
		cmocka_unit_test(file_that_is_not_a_core_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
