/* Calls in a function that was made by hand. */
#include <string.h>

#include "image/closure_calls.h"
#include "tests/fake_program.h"

#define TEXT 0x401000u
#define SIZE 64u

enum { CALLER, CALLEE, CLOSURE, OTHER, FUNCTIONS };

/* The functions, and behind them read-only data: a closure of the third. */
struct program {
	uint8_t code[FUNCTIONS * SIZE];
	uint64_t constant;
};

struct fixture {
	struct program program;
	struct fake_functions functions;
	struct image img;
};

static uint64_t entry_of(int function)
{
	return TEXT + function * SIZE;
}

/* The distance from the end of the instruction, which it ends in. */
static void put_distance(struct fixture *f, size_t at, uint64_t target)
{
	int32_t distance = target - (TEXT + at + 4);

	memcpy(f->program.code + at, &distance, sizeof(distance));
}

/* LEA rax, [rip + rel32] */
static void put_lea(struct fixture *f, size_t at, uint64_t target)
{
	f->program.code[at] = 0x48;
	f->program.code[at + 1] = 0x8d;
	f->program.code[at + 2] = 0x05;
	put_distance(f, at + 3, target);
}

/* CALL rel32 */
static void put_call(struct fixture *f, size_t at, uint64_t target)
{
	f->program.code[at] = 0xe8;
	put_distance(f, at + 1, target);
}

static int set_up(void **state)
{
	static const char *const names[] = {"main.caller", "runtime.callee", "main.caller.func1",
					    "main.other"};
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	memset(f.program.code, 0x90, sizeof(f.program.code));
	f.program.constant = entry_of(CLOSURE);
	f.img.functions = fake_pclntab(&f.functions, names, FUNCTIONS, TEXT, SIZE);
	*state = &f;
	return 0;
}

static size_t find(struct fixture *f, struct closure_call *ret, size_t max)
{
	size_t count;

	f->img.elf = fake_elf(EM_X86_64, NULL, 0, &f->program, sizeof(f->program), TEXT);
	count = closure_calls_find(&f->img, entry_of(CALLER), entry_of(CALLEE), ret, max);
	elf_file_close(f->img.elf);
	return count;
}

static void each_call_has_the_closure_that_was_named_before_it(void **state)
{
	struct fixture *f = *state;
	struct closure_call calls[4];

	put_lea(f, 0, entry_of(CLOSURE));
	put_lea(f, 7, TEXT + sizeof(f->program.code) - 8); /* data that is no closure */
	put_call(f, 14, entry_of(CALLEE));
	put_call(f, 19, entry_of(OTHER));
	put_call(f, 24, entry_of(CALLEE));
	put_lea(f, 29, TEXT + offsetof(struct program, constant));
	put_call(f, 36, entry_of(CALLEE));
	assert_int_equal(find(f, calls, 4), 3);
	assert_int_equal(calls[0].return_address, TEXT + 19);
	assert_int_equal(calls[0].closure, entry_of(CLOSURE));
	assert_int_equal(calls[1].return_address, TEXT + 29);
	assert_int_equal(calls[1].closure, 0);
	assert_int_equal(calls[2].return_address, TEXT + 41);
	assert_int_equal(calls[2].closure, entry_of(CLOSURE));
}

static void there_may_be_more_than_there_is_room_for(void **state)
{
	struct fixture *f = *state;
	struct closure_call calls[2] = {{0}, {7, 7}};

	put_call(f, 0, entry_of(CALLEE));
	put_call(f, 5, entry_of(CALLEE));
	assert_int_equal(find(f, calls, 1), 2);
	assert_int_equal(calls[0].return_address, TEXT + 5);
	assert_int_equal(calls[1].return_address, 7);
}

static void address_outside_functions_has_no_calls(void **state)
{
	struct fixture *f = *state;
	struct closure_call call;

	put_call(f, 0, entry_of(CALLEE));
	f->img.elf = fake_elf(EM_X86_64, NULL, 0, &f->program, sizeof(f->program), TEXT);
	assert_int_equal(closure_calls_find(&f->img, TEXT + 1, entry_of(CALLEE), &call, 1), 0);
	assert_int_equal(closure_calls_find(&f->img, 0, entry_of(CALLEE), &call, 1), 0);
	assert_int_equal(call_target(&f->img, TEXT + 5), entry_of(CALLEE));
	assert_int_equal(call_target(&f->img, TEXT + 6), 0);
	assert_int_equal(call_target(&f->img, TEXT), 0);
	assert_int_equal(call_target(&f->img, 0), 0);
	f->img.machine = MACHINE_ARM64;
	assert_int_equal(closure_calls_find(&f->img, TEXT, entry_of(CALLEE), &call, 1), 0);
	f->img.machine = MACHINE_AMD64;
	elf_file_close(f->img.elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_call_has_the_closure_that_was_named_before_it, set_up),
		cmocka_unit_test_setup(there_may_be_more_than_there_is_room_for, set_up),
		cmocka_unit_test_setup(address_outside_functions_has_no_calls, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
