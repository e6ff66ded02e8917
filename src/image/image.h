/*
 * A Go program's binary, as a target has it mapped: its version, where it is mapped, and its
 * function table. Opening it reads the file (through /proc/PID/exe) and a few hundred bytes of the
 * target.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/buildinfo.h"
#include "image/elf_file.h"
#include "image/pclntab.h"
#include "target/target.h"

/* Offsets in runtime.moduledata and ids that differ by Go version; golayout knows them. */
struct image_layout {
	uint16_t moduledata_gofunc; /* 0 in Go 1.17, where funcdata are pointers */
	uint8_t wrapper_id;
	uint16_t moduledata_next; /* 0: not known, plugins are not looked for */
};

struct plugins;

struct image {
	struct elf_file *elf;
	struct elf_file *unstripped; /* an unstripped file of the same build (--exe), or NULL */
	struct buildinfo info;
	enum machine machine;
	uint64_t bias;       /* address in the target minus address in the file */
	uint64_t moduledata; /* address in the target, once image_load_functions() was called */
	struct pclntab functions; /* and those of its plugins */
	struct plugins *plugins;
	uint8_t *copy;  /* the program is not Go, but has loaded this (-buildmode=c-shared) */
	bool library;   /* the program is not Go's, but has loaded this (-buildmode=c-shared) */
	bool unchecked; /* of a core file that does not show its build */
};

/*
 * The main program of a target, or the first Go library in it when the program is not Go's. `exe`
 * names an unstripped build of it or is NULL; its build id must match. ERROR_NOT_GO when there is
 * no Go in it. The version is "" when a Go program lacks it. The program of a core file is compared
 * with the core where possible, and supplies the bytes that the core leaves out.
 */
struct error *image_open(struct target *t, const char *exe, struct image **ret) must_check;
/* A program's file without a process; its bias is 0. */
struct error *image_open_file(const char *path, struct image **ret) must_check;
/* Says where a mapping lay of a file that was opened without a process: the bias follows.
 * ERROR_CORRUPT: the file has no code at that offset. */
struct error *image_place(struct image *img, uint64_t start, uint64_t offset) must_check;
void image_close(struct image *img);
/* As mapped_file_check(), for all its files: call it after much was read. */
struct error *image_check(const struct image *img, struct error *err) must_check;

/* Finds the function table and moduledata in the file. `t` is read where the file's relocations do
 * not tell, and for plugins: then it must outlive the image. It may be NULL. */
struct error *image_load_functions(struct image *img, struct target *t,
				   const struct image_layout *layout) must_check;
/* The address in the target of a symbol of the file or its unstripped file; 0 when there is none.
 */
uint64_t image_symbol(const struct image *img, const char *name);

/* The binary's own bytes at an address of the target (code, read-only data), or NULL. */
const uint8_t *image_bytes(const struct image *img, uint64_t address, size_t size);

static inline void cleanup_image(struct image **img)
{
	image_close(*img);
}
#define _cleanup_image_ __attribute__((cleanup(cleanup_image)))

#endif
