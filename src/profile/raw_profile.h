/*
 * The additional data of a raw pprof file, so that it can be written in all formats after
 * symbolization. A file with functions has none. For the writer and the reader alone.
 */
#ifndef PROFILE_RAW_PROFILE_H
#define PROFILE_RAW_PROFILE_H

/* The beginning of a comment; profile->command follows. */
#define RAW_COMMAND "process: "
/* Numeric labels of a sample: its idle_count and idle_ns. */
#define RAW_IDLE_COUNT "idle_count"
#define RAW_IDLE_NS "idle_nanoseconds"

#endif
