/*
 * Which lines of source a profile gets: those around each line that has time, from files below a
 * directory.
 *
 * A line is taken only if the file there has the function: its declaration is the last one above
 * the line, and "func" stands where the function begins, if the profile knows that. So neither
 * another file of the same name nor a source that was edited since shows a wrong line.
 */
#ifndef PROFILE_SOURCES_H
#define PROFILE_SOURCES_H

#include "profile/profile_symbols.h"

/* Fills p->sources. *ret_files: the files that lines were taken of. */
struct error *sources_find(struct profile *p, const struct profile_symbols *symbols,
			   const char *folder, size_t *ret_files) must_check;

#endif
