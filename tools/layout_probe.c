/*
 * Prints the numbers of src/golayout/fields.def as the DWARF of one Go program has them, a line
 * each: what src/golayout/generated/go1_NN.h is made of. tools/gen-layout runs it.
 */
#include <fcntl.h>
#include <stdio.h>

#include "base/array.h"
#include "image/dwarf_types.h"

static const char *const names[] = {
#define FIELD(name, type, path) #name,
#define CONSTANT(name, go_name) #name,
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};

static struct dwarf_query queries[] = {
#define FIELD(name, go_type, go_path) {.type = go_type, .path = go_path},
#define CONSTANT(name, go_name) {.type = go_name, .path = "", .is_constant = true},
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};

static struct error *probe(const char *path)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	bool has_dwarf;
	struct error *err = elf_file_open(open(path, O_RDONLY | O_CLOEXEC), path, &elf);

	if (!err)
		err = dwarf_answer(elf, queries, ARRAY_SIZE(queries), &has_dwarf);
	if (!err && !has_dwarf)
		err = error_format(ERROR_FAILED, "%s has no DWARF", path);
	return err;
}

int main(int argc, char **argv)
{
	_cleanup_error_ struct error *err = NULL;

	if (argc != 2) {
		fprintf(stderr, "usage: layout_probe GO-PROGRAM\n");
		return 2;
	}
	err = probe(argv[1]);
	if (err) {
		fprintf(stderr, "layout_probe: %s\n", err->message);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		if (queries[i].found)
			printf("NUMBER(%s, %lld)\n", names[i], (long long)queries[i].value);
		else
			printf("NUMBER(%s, GOLAYOUT_ABSENT)\n", names[i]);
	}
	return 0;
}
