/*
 * What waits to be sent: a folder with one file for each request. It survives gospect: a file is
 * there whole or not at all, and the next gospect sends what the last one left.
 *
 * The folder and its files are its owner's alone. A name is the time and 128 random bits; a file
 * replaces none and follows no link. Above the limit of bytes, or when the disk is full, the oldest
 * files go, and are counted. A file that is not whole (the machine lost power) is dropped when it
 * is opened.
 */
#ifndef PUSH_SPOOL_H
#define PUSH_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SPOOL_NAME 56

struct spool_file {
	char name[SPOOL_NAME];
	uint64_t size;
	uint64_t serial; /* the same as long as the file is there; never 0 */
};

struct spool {
	int folder; /* -1: none */
	char *path;
	struct spool_file *files; /* oldest first; the first `first` are gone */
	size_t first, count, capacity;
	uint64_t bytes;      /* of all files */
	uint64_t most_bytes; /* the limit */
	uint64_t dropped;    /* files, since it was opened, for want of room */
	uint64_t last_serial;
	int failed; /* errno of the last file that could not be written; 0: none */
};

/* The folder `kind` in `path`: requests of one kind of server. Creates both if they do not exist.
 * ERROR_FAILED: one belongs to another user, or another gospect uses it. */
struct error *spool_open(const char *path, const char *kind, uint64_t most_bytes,
			 struct spool *ret) must_check;
void spool_close(struct spool *s);

/* Adds a request. False: it could not be written, and is counted as dropped. */
bool spool_add(struct spool *s, const void *bytes, size_t size);

/* The oldest one; NULL: there is none. Valid until the next call. */
const struct spool_file *spool_oldest(const struct spool *s);
size_t spool_count(const struct spool *s);
/* Opens the oldest for reading, behind its head. -1: it was damaged or is gone, and is dropped. */
int spool_open_oldest(struct spool *s, size_t *ret_size);
/* Removes that file, if it is still there. */
void spool_remove(struct spool *s, uint64_t serial);

#endif
