#include "image/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/functions.h"
#include "image/library.h"
#include "image/plugins.h"
#include "image/version.h"

static struct error *open_unstripped(struct image *img, const char *path)
{
	int fd = regular_file_open(path);
	struct error *err;

	if (fd < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", path);
	err = elf_file_open(fd, path, &img->unstripped);
	if (err)
		return err;
	if (!elf_file_same_build(img->elf, img->unstripped))
		return error_format(
			ERROR_FAILED,
			"%s is not of the same build as %s (build id %s instead of %s); name the "
			"unstripped file of that build, or omit --exe",
			path, elf_file_name(img->elf), elf_file_build_id(img->unstripped),
			elf_file_build_id(img->elf));
	return NULL;
}

static struct error *open_elf(int fd, const char *name, struct image **ret)
{
	_cleanup_image_ struct image *img = calloc(1, sizeof(*img));
	struct error *err;

	if (!img)
		return &error_no_memory;
	err = elf_file_open(fd, name, &img->elf);
	if (err)
		return err;
	img->machine = elf_file_machine(img->elf);
	err = buildinfo_read(img->elf, &img->info);
	if (err && (err->code == ERROR_NOT_GO || err->code == ERROR_CORRUPT)) {
		error_destroy(err);
		err = version_recover(img);
	}
	err = elf_file_check(img->elf, err);
	if (!err)
		*ret = take_ptr(img);
	return err;
}

/* The start of the program if it was not relocated. */
static struct error *open_module(struct target *t, struct image **ret)
{
	_cleanup_free_ char *name = NULL;
	const struct elf_segment *segments;
	struct error *err, *not_go;
	uint64_t start;
	int fd;

	err = target_open_exe(t, &fd);
	if (!err)
		err = open_elf(fd, target_exe_name(t), ret);
	if (!err || err->code != ERROR_NOT_GO)
		return err;
	not_go = err;
	err = library_find(t, &fd, &name, &start);
	if (err || fd < 0) {
		error_destroy(err);
		return not_go;
	}
	error_destroy(not_go);
	err = open_elf(fd, name, ret);
	if (err)
		return err;
	(*ret)->library = true;
	if (elf_file_segments((*ret)->elf, &segments))
		(*ret)->bias = start - segments[0].address + segments[0].offset;
	return NULL;
}

/* Where the program begins when nothing moved it. */
static uint64_t first_address(const struct image *img)
{
	const struct elf_segment *segments;

	return elf_file_segments(img->elf, &segments) ? segments[0].address + img->bias : 0;
}

/* Where the program began. A core file that lost its notes does not say, which does no harm when
 * the program cannot be moved. */
static struct error *find_entry(const struct image *img, struct target *t, uint64_t *ret)
{
	const struct target_core *core = target_core(t);
	struct error *err = target_entry(t, ret);

	if (!err || !core || !core->truncated || core->threads || elf_file_is_pie(img->elf))
		return err;
	error_destroy(err);
	*ret = elf_file_entry(img->elf);
	return NULL;
}

/* Whether the file is the program that the core is of; before anything of it is supplied. */
static struct error *check_core(struct image *img, struct target *t, const struct target_core *core)
{
	uint64_t start = target_program_start(t) ? target_program_start(t) : first_address(img);
	const char *name = elf_file_name(img->elf);
	uint16_t machine = img->machine == MACHINE_AMD64 ? EM_X86_64 : EM_AARCH64;
	_Alignas(8) uint8_t page[4096];
	char theirs[ELF_BUILD_ID_SIZE] = "", ours[ELF_BUILD_ID_SIZE] = "";
	const uint8_t *file;
	size_t size;

	if (core->machine != machine)
		return error_format(
			ERROR_FAILED,
			"%s is built for another architecture than %s; name the program of the "
			"core file with --exe FILE",
			name, core->path);
	if (start && !error_dropped(target_read(t, start, page, sizeof(page))))
		elf_bytes_build_id(page, sizeof(page), theirs);
	file = elf_file_whole(img->elf, &size);
	elf_bytes_build_id(file, size < sizeof(page) ? size : sizeof(page), ours);
	img->unchecked = !theirs[0] || !ours[0];
	if ((!img->unchecked && strcmp(ours, theirs)) || (img->bias && !elf_file_is_pie(img->elf)))
		return error_format(
			ERROR_FAILED,
			"%s is not the program of %s (build id %s instead of %s); name the right "
			"one with --exe FILE",
			name, core->path, *ours ? ours : "unknown", *theirs ? theirs : "unknown");
	return NULL;
}

/* Code and read-only data, which no core has: their bytes in the file are those in memory. */
static struct error *supply_core(const struct image *img, struct target *t)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(img->elf, &segments), rest;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		const uint8_t *bytes = elf_file_rest(img->elf, segments[i].address, &rest);

		if (bytes && !segments[i].writable)
			err = target_supply(t,
					    &(struct target_range){segments[i].address + img->bias,
								   segments[i].file_size,
								   (void *)bytes});
	}
	return err;
}

struct error *image_open(struct target *t, const char *exe, struct image **ret)
{
	_cleanup_image_ struct image *img = NULL;
	uint64_t entry;
	struct error *err = open_module(t, &img);

	if (err)
		return target_pid(t) ? error_wrap(err, "process %d", target_pid(t)) : err;
	if (!img->library) {
		err = find_entry(img, t, &entry);
		if (err)
			return err;
		img->bias = entry - elf_file_entry(img->elf);
	}
	if (exe)
		err = open_unstripped(img, exe);
	if (!err && target_core(t))
		err = check_core(img, t, target_core(t));
	if (!err && target_core(t))
		err = supply_core(img, t);
	err = image_check(img, err);
	if (!err)
		*ret = take_ptr(img);
	return err;
}

struct error *image_open_file(const char *path, struct image **ret)
{
	int fd = regular_file_open(path);

	if (fd < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", path);
	return open_elf(fd, path, ret);
}

void image_close(struct image *img)
{
	if (!img)
		return;
	plugins_close(img->plugins);
	image_release(img);
}

struct error *image_load_functions(struct image *img, struct target *t,
				   const struct image_layout *layout)
{
	struct error *err = functions_load(img, t, layout);

	if (err || !t || !layout->moduledata_next)
		return err;
	return plugins_open(img, t, layout, &img->plugins);
}
