/*
 * Finds source lines for a profile: those around each line with time, in files below a directory.
 *
 * A line is taken only if the file there has the function: its declaration is the last one above
 * the line, and "func" stands where the function begins, if the profile knows that. So neither
 * another file of the same name nor a source that was edited since shows a wrong line.
 */
#ifndef PROFILE_SOURCES_H
#define PROFILE_SOURCES_H

#include "profile/profile_symbols.h"

/* Fills p->sources. *ret_files: how many files lines were taken from. */
struct error *sources_find(struct profile *p, const struct profile_symbols *symbols,
			   const char *folder, size_t *ret_files) must_check;

#endif
