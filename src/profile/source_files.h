/*
 * Go source files below a directory that the user named (--source DIR). Their names come from a
 * target or a recording and are hostile. The longest end of a name that is a file below the
 * directory is opened: for /build/src/shop/api/api.go it is DIR/shop/api/api.go, then
 * DIR/api/api.go, then DIR/api.go.
 *
 * No other file is opened: a name has no "." and "..", no symbolic link below the directory is
 * followed, and the file is a regular one that ends in ".go".
 */
#ifndef PROFILE_SOURCE_FILES_H
#define PROFILE_SOURCE_FILES_H

#include "base/door.h"

/* The broker's part: a service of the door (DOOR_SOURCE). The request is a name, the answer a
 * descriptor or nothing. `arg` is a struct source_folder. */
struct source_folder {
	const char *path;
	int folder; /* its descriptor; 0: not open yet */
};
struct error *source_serve(void *arg, struct door_call *call) must_check;
void source_folder_close(struct source_folder *folder);

/* Opens for reading. With a broker `folder` is ignored, because the broker has its own. -1: there
 * is none. */
int source_open(struct source_folder *folder, const char *name);

#endif
