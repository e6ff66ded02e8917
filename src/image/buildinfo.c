#include "image/buildinfo.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cursor.h"

#define MAGIC "\xff Go buildinf:"
#define MAGIC_SIZE 14
#define HEADER_SIZE 32
#define MAX_TEXT (16u << 20)
#define MARKER_SIZE 16 /* modinfo is wrapped in two of these: runtime/debug/mod.go */

enum { FLAG_BIG_ENDIAN = 1, FLAG_INLINE_STRINGS = 2 };

static bool is_magic(const uint8_t *bytes)
{
	return !memcmp(bytes, MAGIC, MAGIC_SIZE);
}

/* The magic is 16-aligned in its own section, or else at the start of the writable data. */
static bool find_blob(const struct elf_file *elf, uint64_t *ret_address, struct bytes *ret)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(elf, &segments);
	struct elf_section section;

	if (elf_file_section(elf, ".go.buildinfo", &section) && section.bytes &&
	    section.size >= HEADER_SIZE && is_magic(section.bytes)) {
		*ret_address = section.address;
		ret->data = elf_file_rest(elf, section.address, &ret->size);
		return ret->size >= HEADER_SIZE;
	}
	for (size_t i = 0; i < count; i++) {
		size_t size;
		const uint8_t *data = elf_file_rest(elf, segments[i].address, &size);

		if (!segments[i].writable)
			continue;
		for (size_t at = 0; at + HEADER_SIZE <= size; at += 16) {
			if (!is_magic(data + at))
				continue;
			*ret_address = segments[i].address + at;
			*ret = (struct bytes){data + at, size - at};
			return true;
		}
	}
	return false;
}

static char *copy_text(const void *bytes, uint64_t size)
{
	return bytes && size < MAX_TEXT ? strndup(bytes, size) : NULL;
}

/* Go 1.18 and later: two strings behind the header, each with its length before it. */
static char *inline_string(struct cursor *c)
{
	uint64_t size = cursor_uvarint(c);

	return copy_text(size < MAX_TEXT ? cursor_bytes(c, size) : NULL, size);
}

char *buildinfo_string(const struct elf_file *elf, uint64_t address)
{
	const uint8_t *bytes = elf_file_bytes(elf, address, 2 * sizeof(uint64_t));
	uint64_t header[2];

	if (!bytes)
		return NULL;
	memcpy(header, bytes, sizeof(header));
	elf_file_relocate(elf, address, header, sizeof(header), 0);
	return copy_text(elf_file_bytes(elf, header[0], header[1]), header[1]);
}

/* Up to Go 1.17: a pointer to a Go string's header. */
static char *pointed_string(const struct elf_file *elf, uint64_t pointer_at)
{
	uint64_t pointer;
	const uint8_t *bytes = elf_file_bytes(elf, pointer_at, sizeof(pointer));

	if (!bytes)
		return NULL;
	memcpy(&pointer, bytes, sizeof(pointer));
	elf_file_relocate(elf, pointer_at, &pointer, sizeof(pointer), 0);
	return buildinfo_string(elf, pointer);
}

static void unwrap_modinfo(char *modinfo)
{
	size_t n = strlen(modinfo);

	if (n < 2 * MARKER_SIZE) {
		modinfo[0] = '\0';
		return;
	}
	memmove(modinfo, modinfo + MARKER_SIZE, n - 2 * MARKER_SIZE);
	modinfo[n - 2 * MARKER_SIZE] = '\0';
}

/* Development versions were "devel go1.25-0123456 DATE", then "go1.26-devel_0123456 DATE": golang
 * cmd/dist/build.go (findgoversion). */
static int minor_of(const char *version)
{
	char *end;
	long minor;

	if (strncmp(version, "go1.", 4) || !isdigit((unsigned char)version[4]) ||
	    strstr(version, "-devel_"))
		return -1;
	minor = strtol(version + 4, &end, 10);
	return minor < 10000 ? (int)minor : -1;
}

static struct error *take_version(char *version, char *modinfo, struct buildinfo *ret)
{
	if (!modinfo)
		modinfo = strdup("");
	if (!version || !modinfo) {
		free(version);
		free(modinfo);
		return &error_no_memory;
	}
	unwrap_modinfo(modinfo);
	*ret = (struct buildinfo){
		.version = version,
		.modinfo = modinfo,
		.minor = minor_of(version),
		.experiment = strstr(version, " X:") || strstr(version, "-X:"),
	};
	return NULL;
}

struct error *buildinfo_read(const struct elf_file *elf, struct buildinfo *ret)
{
	char *version, *modinfo;
	struct bytes blob;
	uint64_t address;

	if (!find_blob(elf, &address, &blob))
		return error_format(ERROR_NOT_GO,
				    "%s is not a Go program (it has no Go build "
				    "information)",
				    elf_file_name(elf));
	if (blob.data[14] != 8 || blob.data[15] & FLAG_BIG_ENDIAN)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s was built with Go for another architecture; gospect supports amd64 "
			"and arm64",
			elf_file_name(elf));
	if (blob.data[15] & FLAG_INLINE_STRINGS) {
		struct cursor c = cursor_of(blob.data, blob.size, "the Go build information");

		cursor_seek(&c, HEADER_SIZE);
		version = inline_string(&c);
		modinfo = inline_string(&c);
	} else {
		version = pointed_string(elf, address + 16);
		modinfo = pointed_string(elf, address + 24);
	}
	if (!version || !version[0]) {
		free(version);
		free(modinfo);
		return error_format(
			ERROR_CORRUPT,
			"the Go build information of %s has no version; build the program again",
			elf_file_name(elf));
	}
	return take_version(version, modinfo, ret);
}

struct error *buildinfo_of_version(const char *version, struct buildinfo *ret)
{
	return take_version(strdup(version), strdup(""), ret);
}

char *buildinfo_setting(const struct buildinfo *info, const char *key)
{
	size_t n = strlen(key);

	for (const char *line = info->modinfo; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, "build\t", 6) && !strncmp(line + 6, key, n) &&
		    line[6 + n] == '=')
			return strndup(line + 7 + n, strcspn(line + 7 + n, "\n"));
	}
	return NULL;
}

void buildinfo_release(struct buildinfo *info)
{
	free(info->version);
	free(info->modinfo);
	*info = (struct buildinfo){0};
}
