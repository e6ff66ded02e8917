/* A file with DWARF, symbols and call frame information, mapped at an address: types, variables,
 * unwinding and names at every few bytes of its code. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "image/debug_frame.h"
#include "image/dwarf_types.h"
#include "image/dwarf_variables.h"
#include "image/modules.h"
#include "made_program.h"

#define BASE 0x7f0000000000ull
#define TEXT 0x1000u /* where the code begins, in the file and by its addresses */
#define CODE 0x400u  /* so much of it is looked at */
#define STEP 5u
#define MAX_FRAMES 20

static struct elf_file *open_bytes(const uint8_t *data, size_t size)
{
	struct elf_file *elf;

	return error_dropped(elf_file_open(bytes_to_fd(data, size), "made", &elf)) ? NULL : elf;
}

/* Any stack: each word leads somewhere into the code. */
static bool word(void *arg, uint64_t address, uint64_t *ret)
{
	*ret = address & 8 ? BASE + address % CODE : address + 64;
	return address < BASE;
}

static void ask_types(const struct elf_file *elf)
{
	struct dwarf_query queries[] = {
		{.type = "abc", .path = ""},
		{.type = "abc", .path = "in.y"},
		{.type = "abd|abc", .path = "z|x"},
		{.type = "fun", .is_constant = true},
	};
	bool has_dwarf;

	error_destroy(dwarf_answer(elf, queries, ARRAY_SIZE(queries), &has_dwarf));
}

static void ask_variables(const struct elf_file *elf)
{
	_cleanup_variables_ struct variables *v = NULL;
	const struct variable *items;
	size_t count;

	if (error_dropped(variables_open(elf, &v)) || !v)
		return;
	for (uint64_t pc = TEXT; pc < TEXT + CODE; pc += STEP)
		if (!error_dropped(variables_at(v, pc, pc & 1, &items, &count)))
			for (size_t i = 0; i < count; i++) {
				fuzz_require(items[i].name && items[i].type);
				fuzz_accepted++;
			}
}

static void ask_debug_frame(struct elf_file *elf)
{
	struct image img = {.elf = elf, .machine = elf_file_machine(elf)};
	_cleanup_debug_frame_ struct debug_frame *frames = NULL;
	int32_t delta;

	if (error_dropped(debug_frame_open(&img, &frames)))
		return;
	for (uint64_t pc = TEXT; pc < TEXT + CODE; pc += STEP)
		if (debug_frame_sp_delta(frames, pc, &delta))
			fuzz_require(delta >= 0);
}

static void walk(struct modules *m, enum machine machine, uint64_t pc)
{
	const struct register_roles *roles = register_roles(machine);
	const struct stack_reader stack = {.word = word};
	struct registers regs = {.known = (1ull << REGISTERS_MAX) - 1};
	enum cfi_result result = CFI_STEPPED;
	bool exact = true;

	regs.value[roles->pc] = pc;
	regs.value[roles->sp] = regs.value[roles->fp] = 0x10000;
	for (int i = 0; i < MAX_FRAMES && result == CFI_STEPPED; i++)
		result = modules_step(m, &stack, exact, &regs, &exact);
}

static void ask_modules(struct elf_file *elf, enum machine machine)
{
	const struct module_range range = {BASE, BASE + CODE, TEXT, "made", ""};
	_cleanup_modules_ struct modules *m = NULL;
	const char *file;

	if (error_dropped(modules_of_files(machine, &m))) {
		elf_file_close(elf);
		return;
	}
	error_destroy(modules_add_file(m, &range, elf));
	for (uint64_t pc = BASE; pc < BASE + CODE; pc += STEP) {
		fuzz_require(modules_function(m, pc, &file));
		walk(m, machine, pc);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file *elf = open_bytes(data, size);

	if (!elf)
		return 0;
	ask_types(elf);
	ask_variables(elf);
	ask_debug_frame(elf);
	ask_modules(elf, elf_file_machine(elf));
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	static const char *const seeds[] = {DWARF_SEEDS};

	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		_cleanup_fclose_ FILE *f = fopen(seeds[i], "re");
		static uint8_t bytes[65536];
		size_t size = f ? fread(bytes, 1, sizeof(bytes), f) : 0;

		fuzz_require(size > 0 && size < sizeof(bytes));
		emit(arg, bytes, size);
	}
}
