/*
 * The Go version of a program that lost its build information (as obfuscators leave it): the
 * runtime keeps it in a variable of its own, runtime.buildVersion.
 */
#ifndef IMAGE_VERSION_H
#define IMAGE_VERSION_H

#include "base/error.h"
#include "image/image.h"

/* Whether the file has sections that only Go's linker writes; they survive strip. */
bool version_is_go(const struct elf_file *elf);

/*
 * Fills img->info of a new image: by the symbol, else by the code of runtime.schedinit, which
 * refers to the variable in every version (runtime/proc.go: "This code just serves to ensure
 * runtime·buildVersion is kept in the resulting binary"). The version is "" when it cannot be
 * found. ERROR_NOT_GO: no sign of Go at all.
 */
struct error *version_recover(struct image *img) must_check;

#endif
