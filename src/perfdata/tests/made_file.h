/* perf files that tests make. */
#ifndef PERFDATA_TESTS_MADE_FILE_H
#define PERFDATA_TESTS_MADE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct made_file {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	bool is_pipe;
};

/* One event, cpu-clock, with time, ids, chain, user registers and stack. */
void made_begin(struct made_file *f, bool is_pipe);
void made_add(struct made_file *f, const void *bytes, size_t size);
void made_u32(struct made_file *f, uint32_t value);
void made_u64(struct made_file *f, uint64_t value);
void made_record(struct made_file *f, uint32_t type, uint16_t misc, const void *body, size_t size);
void made_comm(struct made_file *f, uint32_t pid, const char *name, uint64_t time);
void made_mmap(struct made_file *f, uint32_t pid, uint64_t start, uint64_t size, const char *path,
	       uint64_t time);
void made_fork(struct made_file *f, uint32_t pid, uint32_t parent, uint64_t time);
void made_exit(struct made_file *f, uint32_t pid, uint64_t time);
/* In user code at `ip`, called from the addresses in `callers`, 0 at the end. */
void made_sample(struct made_file *f, uint32_t pid, uint64_t time, uint64_t ip,
		 const uint64_t *callers);
/* `wrap`: the records from there on become one packed record. */
void made_pack(struct made_file *f, size_t from);
/* Sizes, and the features: the machine and a build id. */
void made_end(struct made_file *f, const char *machine);

#endif
