#include "lib/program_variables.h"

struct error *program_variables_open(const struct gospect_target *t, struct variables **ret)
{
	const struct image *img = t->image;
	struct error *err = variables_open(img->elf, ret);

	if (!err && !*ret && img->unstripped)
		err = variables_open(img->unstripped, ret);
	if (err && err->code == ERROR_CORRUPT) {
		remark(&t->remark, "%s; no arguments and variables", err->message);
		error_destroy(err);
		return NULL;
	}
	if (!err && !*ret)
		remark(&t->remark,
		       "%s has no DWARF, so arguments and variables are missing; name an "
		       "unstripped file of the same build with --exe FILE",
		       elf_file_name(img->elf));
	return err;
}
