/* -f FORMAT, and what a file's name says of its format. */
#ifndef CLI_FORMAT_NAMES_H
#define CLI_FORMAT_NAMES_H

#include <gospect/write.h>

/* The format of this name; 0: there is none. */
enum gospect_format format_named(const char *name);
const char *format_name(enum gospect_format format);

/* Of a profile: .pb.gz .pprof .folded .json .html; 0: the name does not say. */
enum gospect_format format_for_profile(const char *path);
/* All of them; NULL ends them. */
const char *const *format_profile_suffixes(void);
/* Of a dump: .json .folded .pb.gz .pprof. */
enum gospect_format format_for_dump(const char *path);

#endif
