#include "tests/made_file.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"

#define HEADER 104
#define ATTR PERF_ATTR_SIZE_VER5
#define SAMPLE_TYPE                                                                     \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |           \
	 PERF_SAMPLE_STACK_USER)
#define EVENT_ID 77

void made_add(struct made_file *f, const void *bytes, size_t size)
{
	if (!array_reserve(&f->bytes, &f->capacity, f->size + size))
		abort();
	memcpy(f->bytes + f->size, bytes, size);
	f->size += size;
}

void made_u32(struct made_file *f, uint32_t value)
{
	made_add(f, &value, sizeof(value));
}

void made_u64(struct made_file *f, uint64_t value)
{
	made_add(f, &value, sizeof(value));
}

static void put(struct made_file *f, size_t at, uint64_t value)
{
	memcpy(f->bytes + at, &value, sizeof(value));
}

void made_begin(struct made_file *f, bool is_pipe)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = ATTR,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = 99,
		.freq = 1,
		.sample_type = SAMPLE_TYPE,
		.sample_id_all = 1,
		.sample_regs_user = 1 << 7 | 1 << 8, /* SP, IP */
	};
	uint64_t id = EVENT_ID;
	uint8_t body[ATTR + 8];

	*f = (struct made_file){.is_pipe = is_pipe};
	made_add(f, "PERFILE2", 8);
	made_u64(f, is_pipe ? 16 : HEADER);
	memcpy(body, &attr, ATTR);
	memcpy(body + ATTR, &id, sizeof(id));
	if (is_pipe) {
		made_record(f, 64, 0, body, sizeof(body));
		return;
	}
	while (f->size < HEADER)
		made_u64(f, 0);
	made_u64(f, EVENT_ID);
	put(f, 16, ATTR + 16);
	put(f, 24, f->size);
	put(f, 32, ATTR + 16);
	made_add(f, &attr, ATTR);
	made_u64(f, HEADER);
	made_u64(f, 8);
	put(f, 40, f->size);
}

void made_record(struct made_file *f, uint32_t type, uint16_t misc, const void *body, size_t size)
{
	struct perf_event_header header = {type, misc, size + sizeof(header)};

	made_add(f, &header, sizeof(header));
	made_add(f, body, size);
}

/* The trailing fields of records other than samples. */
static void add_ids(struct made_file *body, uint32_t pid, uint64_t time)
{
	made_u32(body, pid);
	made_u32(body, pid);
	made_u64(body, time);
	made_u64(body, EVENT_ID);
}

static void add_text(struct made_file *body, const char *text)
{
	char padded[64] = "";

	strncpy(padded, text, sizeof(padded) - 1);
	made_add(body, padded, (strlen(padded) + 8) & ~7u);
}

static void add_body(struct made_file *f, uint32_t type, uint16_t misc, struct made_file *body)
{
	made_record(f, type, misc, body->bytes, body->size);
	free(body->bytes);
}

void made_comm(struct made_file *f, uint32_t pid, const char *name, uint64_t time)
{
	struct made_file body = {0};

	made_u32(&body, pid);
	made_u32(&body, pid);
	add_text(&body, name);
	add_ids(&body, pid, time);
	add_body(f, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &body);
}

void made_mmap(struct made_file *f, uint32_t pid, uint64_t start, uint64_t size, const char *path,
	       uint64_t time)
{
	struct made_file body = {0};

	made_u32(&body, pid);
	made_u32(&body, pid);
	made_u64(&body, start);
	made_u64(&body, size);
	made_u64(&body, 0);
	add_text(&body, path);
	add_ids(&body, pid, time);
	add_body(f, PERF_RECORD_MMAP, PERF_RECORD_MISC_USER, &body);
}

static void add_task(struct made_file *f, uint32_t type, uint32_t pid, uint32_t parent,
		     uint64_t time)
{
	struct made_file body = {0};

	made_u32(&body, pid);
	made_u32(&body, parent);
	made_u32(&body, pid);
	made_u32(&body, parent);
	made_u64(&body, time);
	add_ids(&body, pid, time);
	add_body(f, type, 0, &body);
}

void made_fork(struct made_file *f, uint32_t pid, uint32_t parent, uint64_t time)
{
	add_task(f, PERF_RECORD_FORK, pid, parent, time);
}

void made_exit(struct made_file *f, uint32_t pid, uint64_t time)
{
	add_task(f, PERF_RECORD_EXIT, pid, pid, time);
}

void made_sample(struct made_file *f, uint32_t pid, uint64_t time, uint64_t ip,
		 const uint64_t *callers)
{
	struct made_file body = {0};
	uint64_t count = 0;

	while (callers[count])
		count++;
	made_u64(&body, EVENT_ID);
	made_u64(&body, ip);
	made_u32(&body, pid);
	made_u32(&body, pid);
	made_u64(&body, time);
	made_u64(&body, 10000000); /* period */
	made_u64(&body, count + 2);
	made_u64(&body, PERF_CONTEXT_USER);
	made_u64(&body, ip);
	made_add(&body, callers, count * sizeof(*callers));
	made_u64(&body, PERF_SAMPLE_REGS_ABI_64);
	made_u64(&body, 0x7ffe0000);
	made_u64(&body, ip);
	made_u64(&body, 16);
	made_u64(&body, 0);
	made_u64(&body, 0);
	made_u64(&body, 16);
	add_body(f, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, &body);
}

void made_pack(struct made_file *f, size_t from)
{
	size_t size = f->size - from, room = ZSTD_compressBound(size);
	uint8_t *packed = malloc(room);

	room = ZSTD_compress(packed, room, f->bytes + from, size, 1);
	f->size = from;
	/* In two pieces. */
	made_record(f, 81, 0, packed, room / 2);
	made_record(f, 81, 0, packed + room / 2, room - room / 2);
	free(packed);
}

void made_end(struct made_file *f, const char *machine)
{
	uint64_t data_at, end = f->size;

	if (f->is_pipe)
		return;
	memcpy(&data_at, f->bytes + 40, sizeof(data_at));
	put(f, 48, end - data_at);
	put(f, 72, 1 << 6);
	made_u64(f, end + 16);
	made_u64(f, 4 + 64);
	made_u32(f, 64);
	for (size_t at = f->size; f->size < at + 64;)
		made_u64(f, 0);
	memcpy(f->bytes + end + 20, machine, strlen(machine));
}
