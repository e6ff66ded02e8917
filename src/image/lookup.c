/* One file of the target: its addresses, its bytes. */
#include "image/image.h"

struct error *image_place(struct image *img, uint64_t start, uint64_t offset)
{
	if (elf_file_bias(img->elf, start, offset, &img->bias))
		return NULL;
	return error_format(ERROR_CORRUPT, "%s has no code at offset 0x%lx",
			    elf_file_name(img->elf), offset);
}

struct error *image_check(const struct image *img, struct error *err)
{
	err = elf_file_check(img->elf, err);
	return img->unstripped ? elf_file_check(img->unstripped, err) : err;
}

uint64_t image_symbol(const struct image *img, const char *name)
{
	uint64_t value = elf_file_symbol(img->elf, name);

	if (!value && img->unstripped)
		value = elf_file_symbol(img->unstripped, name);
	return value ? value + img->bias : 0;
}

const uint8_t *image_bytes(const struct image *img, uint64_t address, size_t size)
{
	return elf_file_bytes(img->elf, address - img->bias, size);
}
