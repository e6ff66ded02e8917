/* A perf file while it is read, between the files that read it: for this room alone. */
#ifndef PERFDATA_PERF_READ_H
#define PERFDATA_PERF_READ_H

#include "base/cursor.h"
#include "perfdata/perf_file.h"

/* perf_header.c: an event's attr, as the kernel has it, in exactly these bytes, and the ids of its
 * events. */
struct error *perf_read_attr(struct perf_file *f, struct bytes attr, struct bytes ids) must_check;
/* Reads the parts in front of the data, and finds the data. */
struct error *perf_read_header(struct perf_file *f, struct bytes file, struct bytes *ret_data,
			       bool *ret_is_pipe) must_check;
/* A fact about the machine in perf's header, by its number (HEADER_*). */
struct error *perf_read_feature(struct perf_file *f, unsigned int number,
				struct bytes bytes) must_check;
struct error *perf_read_build_id(struct perf_file *f, uint16_t misc, struct bytes body) must_check;
/* That of a mapping (PERF_RECORD_MMAP2), if it has one: perf record --buildid-mmap. */
struct error *perf_read_mapped_id(struct perf_file *f, const struct perf_record *r) must_check;

/* perf_unpack.c: appends the contents of a packed record, up to a limit by the size of the file. */
struct perf_unpacker;
struct perf_unpacker *perf_unpacker_create(size_t file_size);
struct error *perf_unpack(struct perf_unpacker *u, struct bytes packed) must_check;
/* All that came, which the caller frees; destroys the unpacker. NULL is none. */
uint8_t *perf_unpacked(struct perf_unpacker *u, size_t *ret_size, bool *ret_too_large);

#endif
