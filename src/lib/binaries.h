/*
 * The binaries that the addresses of a recorded file belong to. There is no process: they are found
 * by the paths of the mappings, or where the user says, and checked by build id.
 */
#ifndef LIB_BINARIES_H
#define LIB_BINARIES_H

#include "golayout/golayout.h"
#include "image/debug_files.h"
#include "image/image.h"
#include "image/modules.h"
#include "lib/remark.h"
#include "profile/profile.h"

#define BINARIES_PLUGINS 32

struct binaries {
	const struct profile_mapping *mappings; /* the recorded file's */
	size_t count;
	struct debug_files given; /* files and folders that the user names */
	size_t named;             /* how many of them are named files */
	struct image *image;      /* the Go program, or the Go library of a program */
	size_t main;              /* its mapping */
	struct golayout *layout;
	/* Plugins (-buildmode=plugin): their functions are looked up through the image's. */
	struct binaries_plugin {
		struct image *image;
		struct golayout *layout;
	} plugins[BINARIES_PLUGINS];
	size_t plugin_count;
	struct modules *modules; /* the C code of all mappings */
	struct remark remark;
	const atomic_int *cancel; /* ERROR_STOPPED when it is not 0; or NULL */
};

/*
 * Fills image, layout and modules for the mappings and given files. A missing library is a remark
 * that says how its functions are shown; a missing Go program is an error. Both name the file and
 * its build id.
 */
struct error *binaries_open(struct binaries *b) must_check;
void binaries_release(struct binaries *b);
#define _cleanup_binaries_ __attribute__((cleanup(binaries_release)))

#endif
