/*
 * The additional data of a raw pprof file, from which all formats can be made once it is
 * symbolized; a file with functions has none. For the writer and the reader alone.
 */
#ifndef PROFILE_RAW_PROFILE_H
#define PROFILE_RAW_PROFILE_H

/* A comment: profile->command is behind it. */
#define RAW_COMMAND "process: "
/* Numeric labels of a sample: its idle_count and idle_ns. */
#define RAW_IDLE_COUNT "idle_count"
#define RAW_IDLE_NS "idle_nanoseconds"

#endif
