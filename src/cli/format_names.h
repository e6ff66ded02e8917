/* -f FORMAT, and the format that a file's name implies. */
#ifndef CLI_FORMAT_NAMES_H
#define CLI_FORMAT_NAMES_H

#include <gospect/write.h>

/* The format of this name; 0: unknown. */
enum gospect_format format_named(const char *name);
const char *format_name(enum gospect_format format);

/* For a profile: .pb.gz .pprof .folded .firefox.json .json .html; 0: the name implies none. */
enum gospect_format format_for_profile(const char *path);
/* All suffixes; NULL-terminated. */
const char *const *format_profile_suffixes(void);
/* Likewise for a dump, whose .json is GOSPECT_JSON. */
enum gospect_format format_for_dump(const char *path);

#endif
