#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"

static struct error *open_twin(struct image *img, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct error *err;

	if (fd < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", path);
	err = elf_file_open(fd, path, &img->twin);
	if (err)
		return err;
	if (!elf_file_build_id(img->elf)[0] ||
	    strcmp(elf_file_build_id(img->elf), elf_file_build_id(img->twin)))
		return error_format(ERROR_FAILED,
				    "%s is not the same build as %s (build id %s against %s); give "
				    "the "
				    "unstripped file of the same build, or leave --exe out",
				    path, elf_file_name(img->elf), elf_file_build_id(img->twin),
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
	if (!err)
		err = buildinfo_read(img->elf, &img->info);
	if (err)
		return err;
	img->machine = elf_file_machine(img->elf);
	*ret = take_ptr(img);
	return NULL;
}

struct error *image_open(struct target *t, const char *exe, struct image **ret)
{
	_cleanup_image_ struct image *img = NULL;
	uint64_t entry;
	struct error *err;
	int fd;

	err = target_open_exe(t, &fd);
	if (!err)
		err = open_elf(fd, target_exe_name(t), &img);
	if (err)
		return target_pid(t) ? error_wrap(err, "process %d", target_pid(t)) : err;
	err = target_entry(t, &entry);
	if (!err && exe)
		err = open_twin(img, exe);
	if (err)
		return err;
	img->bias = entry - elf_file_entry(img->elf);
	*ret = take_ptr(img);
	return NULL;
}

struct error *image_open_file(const char *path, struct image **ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", path);
	return open_elf(fd, path, ret);
}

void image_close(struct image *img)
{
	if (!img)
		return;
	if (img->functions.short_names) {
		intern_release(img->functions.short_names);
		free(img->functions.short_names);
	}
	elf_file_close(img->elf);
	elf_file_close(img->twin);
	buildinfo_release(&img->info);
	free(img->copy);
	free(img);
}

uint64_t image_symbol(const struct image *img, const char *name)
{
	uint64_t value = elf_file_symbol(img->elf, name);

	if (!value && img->twin)
		value = elf_file_symbol(img->twin, name);
	return value ? value + img->bias : 0;
}

const uint8_t *image_bytes(const struct image *img, uint64_t address, size_t size)
{
	return elf_file_bytes(img->elf, address - img->bias, size);
}
