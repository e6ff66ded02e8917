/* The decoder of amd64 against Capstone: on all code of this process and its libraries, and on
 * random bytes. */
#include <capstone/capstone.h>
#include <stdio.h>
#include <string.h>

#include "base/unit_test.h"
#include "image/amd64.h"

struct both {
	csh capstone;
	cs_insn *insn;
	size_t compared;
	size_t wrong;
};

static void show(const struct both *b, const uint8_t *code, size_t length)
{
	print_error("%zu bytes by amd64.c, %u by Capstone:", length, b->insn->size);
	for (size_t i = 0; i < b->insn->size; i++)
		print_error(" %02x", code[i]);
	print_error(" (%s %s)\n", b->insn->mnemonic, b->insn->op_str);
}

/* The instruction that both see at `code`: its length by Capstone, 0 when that sees none. */
static size_t compare(struct both *b, const uint8_t *code, size_t size)
{
	struct amd64_insn ours;
	const uint8_t *at = code;
	uint64_t address = 0;
	size_t left = size;

	if (!cs_disasm_iter(b->capstone, &at, &left, &address, b->insn))
		return 0;
	b->compared++;
	if (!amd64_decode(code, size, &ours) || ours.length != b->insn->size) {
		if (b->wrong++ < 20)
			show(b, code, ours.length);
	}
	return b->insn->size;
}

static void compare_range(struct both *b, const uint8_t *from, const uint8_t *to)
{
	while (from < to) {
		size_t length = compare(b, from, to - from);

		from += length ? length : 1;
	}
}

static int open_capstone(void **state)
{
	static struct both both;

	both = (struct both){0};
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &both.capstone) != CS_ERR_OK)
		return -1;
	both.insn = cs_malloc(both.capstone);
	*state = &both;
	return both.insn ? 0 : -1;
}

static int close_capstone(void **state)
{
	struct both *b = *state;

	cs_free(b->insn, 1);
	return cs_close(&b->capstone) == CS_ERR_OK ? 0 : -1;
}

static void instruction_lengths_equal_capstones(void **state)
{
	struct both *b = *state;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx r-xp", &start, &end) == 2 && strchr(line, '/') &&
		    strstr(line, "r-xp"))
			compare_range(b, (const uint8_t *)start, (const uint8_t *)end);
	}
	fclose(maps);
	print_message("%zu instructions compared\n", b->compared);
	assert_true(b->compared > 100000);
	assert_int_equal(b->wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(instruction_lengths_equal_capstones, open_capstone,
						close_capstone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
