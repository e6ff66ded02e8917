#include "lib/program.h"

#include <string.h>

#include "base/cleanup.h"
#include "goroutine/goroutines.h"

void program_describe_build(const struct image *img, struct strbuf *sb)
{
	_cleanup_free_ char *cgo = buildinfo_setting(&img->info, "CGO_ENABLED");
	_cleanup_free_ char *race = buildinfo_setting(&img->info, "-race");
	bool dynamic = img->library || elf_file_is_dynamic(img->elf);

	strbuf_adds(sb, dynamic ? "dynamic" : "static");
	if (img->library)
		strbuf_adds(sb, ",library");
	else if (elf_file_is_pie(img->elf))
		strbuf_adds(sb, ",pie");
	if (dynamic && cgo && !strcmp(cgo, "1"))
		strbuf_adds(sb, ",cgo");
	if (race && !strcmp(race, "true"))
		strbuf_adds(sb, ",race");
	if (elf_file_is_stripped(img->elf))
		strbuf_adds(sb, ",stripped");
}

struct error *program_count_goroutines(struct target *t, const struct image *img,
				       const struct golayout *lay, long *ret)
{
	_cleanup_goroutine_set_ struct goroutine_set *set = NULL;
	struct goroutine_options options = {0};
	size_t count;
	struct error *err = goroutine_set_open(t, img, lay, &options, &set);

	if (!err)
		err = goroutine_set_count_alive(set, &count);
	if (!err)
		*ret = count;
	return err;
}
