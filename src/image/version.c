#include "image/version.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/data_refs.h"
#include "image/functions.h"

bool version_is_go(const struct elf_file *elf)
{
	static const char *const names[] = {".go.buildinfo", ".note.go.buildid", ".gopclntab",
					    ".data.rel.ro.gopclntab"};
	struct elf_section section;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (elf_file_section(elf, names[i], &section))
			return true;
	return false;
}

/* The string whose header is at this address of the file, if it is a valid version. */
static char *version_at(const struct elf_file *elf, uint64_t address)
{
	_cleanup_free_ char *text = buildinfo_string(elf, address);

	if (!text || (strncmp(text, "go1.", 4) && strncmp(text, "devel ", 6)))
		return NULL;
	for (const char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			return NULL;
	return take_ptr(text);
}

static char *version_by_code(struct image *img)
{
	/* Only names and code are looked at, which no version has elsewhere. */
	struct image_layout layout = {.moduledata_gofunc = 8};
	_cleanup_data_refs_ struct data_refs refs = {0};
	char *version = NULL;

	if (error_dropped(functions_load(img, NULL, &layout)))
		return NULL;
	if (!error_dropped(data_refs_of(img, "runtime.schedinit", &refs)))
		for (size_t i = 0; !version && i < refs.count; i++)
			version = version_at(img->elf, refs.items[i]);
	functions_drop(img);
	return version;
}

struct error *version_recover(struct image *img)
{
	_cleanup_free_ char *version = NULL;
	uint64_t address;

	if (!version_is_go(img->elf))
		return error_format(ERROR_NOT_GO,
				    "%s is not a Go program (it has no Go build information)",
				    elf_file_name(img->elf));
	address = elf_file_symbol(img->elf, "runtime.buildVersion");
	if (address)
		version = version_at(img->elf, address);
	if (!version)
		version = version_by_code(img);
	return buildinfo_of_version(version ? version : "", &img->info);
}
