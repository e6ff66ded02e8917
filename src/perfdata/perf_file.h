/*
 * perf's file format (tools/perf/Documentation/perf.data-file-format.txt and the kernel's
 * include/uapi/linux/perf_event.h): what `perf record` wrote, to a file or to a pipe, packed (-z)
 * or not. Every byte is treated as hostile. If perf did not finish a file, its records are used.
 */
#ifndef PERFDATA_PERF_FILE_H
#define PERFDATA_PERF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/error.h"
#include "base/map.h"
#include "image/elf_file.h"

/* Bits of a set of features: tools/perf/util/header.h. */
#define PERF_FEATURES 256

/* A recorded event, and the contents of its samples. */
struct perf_attr {
	uint32_t type; /* PERF_TYPE_* */
	uint64_t config;
	uint64_t period;      /* 0: by frequency */
	uint64_t sample_type; /* PERF_SAMPLE_* */
	uint64_t read_format;
	uint64_t branch_type;
	uint64_t registers;  /* which of the user's registers */
	uint32_t stack_size; /* the most bytes of the user's stack in a sample */
	bool ids_everywhere; /* sample_id_all: other records end with time and ids, too */
	/* The callchain has the user's part although the kernel was asked to leave that out
	 * (exclude_callchain_user): gospect has put it there. */
	bool is_rewritten;
	struct bytes raw; /* as the file has it */
	struct bytes ids; /* of its events, 8 bytes each */
};

/* A record of the recording: the kernel's, or one that perf adds to them. */
struct perf_record {
	uint32_t type; /* PERF_RECORD_* */
	uint16_t misc;
	uint64_t time; /* 0: unknown, as for mappings from before the recording */
	const uint8_t *body;
	size_t size;
};

struct perf_build_id {
	const char *path;    /* in the file's bytes */
	struct bytes record; /* of its own; none when it comes from a mapping */
	char id[ELF_BUILD_ID_SIZE];
};

struct perf_file {
	struct perf_attr *attrs;
	size_t attr_count;
	size_t attr_capacity;
	struct map ids; /* of an event -> its attr's place + 1 */
	/* By time; those of the same time in their original order. */
	struct perf_record *records;
	size_t count;
	size_t capacity;
	struct perf_build_id *build_ids;
	size_t build_id_count;
	size_t build_id_capacity;
	struct bytes features[PERF_FEATURES]; /* without data: the file does not have it */
	/* "" when the file does not say. */
	char machine[32]; /* "x86_64", "aarch64" */
	char host[128];
	char version[64]; /* of perf */
	uint64_t lost;    /* samples that the kernel or perf dropped */
	bool has_aux;     /* it has data of a hardware tracer, which is not used */
	bool unfinished;  /* perf did not finish it */
	bool cut;         /* something in it is truncated or broken */
	bool too_large;   /* its packed data exceeds the limit here */
	uint8_t *unpacked;
};

bool perf_file_is(const void *bytes, size_t size);

/* Keeps pointers to the bytes. ERROR_CORRUPT says why nothing of them can be used. */
struct error *perf_file_read(const void *bytes, size_t size, struct perf_file *ret) must_check;
void perf_file_release(struct perf_file *file);
#define _cleanup_perf_file_ __attribute__((cleanup(perf_file_release)))

/* The attr that a sample belongs to; NULL when it names an event that is not in the file. */
const struct perf_attr *perf_file_attr(const struct perf_file *file,
				       const struct perf_record *sample);

/* Hexadecimal; NULL when the file does not have it. */
const char *perf_file_build_id(const struct perf_file *file, const char *path);

#endif
