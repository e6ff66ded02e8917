/*
 * The build information that the Go linker writes into every program: the version of Go and the
 * module information. It survives strip. Source: cmd/link/internal/ld/data.go:buildinfo,
 * debug/buildinfo.
 */
#ifndef IMAGE_BUILDINFO_H
#define IMAGE_BUILDINFO_H

#include <stdbool.h>

#include "base/error.h"
#include "image/elf_file.h"

struct buildinfo {
	char *version;   /* "go1.27.2", "go1.24.4 X:staticlockranking", "devel go1.28-..." */
	char *modinfo;   /* lines "path\t...", "build\tKEY=VALUE"; "" when there are none */
	int minor;       /* 27 for go1.27.2; -1 when the version is no release of Go 1 */
	bool experiment; /* built with an experiment that is not the default */
};

/* ERROR_NOT_GO when the file has none. */
struct error *buildinfo_read(const struct elf_file *elf, struct buildinfo *ret) must_check;
/* As buildinfo_read(), for a version string known otherwise (runtime.buildVersion). */
struct error *buildinfo_of_version(const char *version, struct buildinfo *ret) must_check;
/* A copy of the value of a line "build\tKEY=..."; NULL without such a line. The caller frees it. */
char *buildinfo_setting(const struct buildinfo *info, const char *key);
/* A copy of the Go string whose header {pointer, length} is at this address of the file; NULL when
 * the file has none there. The caller frees it. */
char *buildinfo_string(const struct elf_file *elf, uint64_t address);
void buildinfo_release(struct buildinfo *info);

#endif
