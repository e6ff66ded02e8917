#include "perfdata/perf_file.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "perfdata/perf_read.h"

/* Records of perf's own: tools/lib/perf/include/perf/event.h. */
enum {
	RECORD_ATTR = 64,
	RECORD_EVENT_TYPE = 65,
	RECORD_TRACING_DATA = 66,
	RECORD_BUILD_ID = 67,
	RECORD_FINISHED_ROUND = 68,
	RECORD_AUXTRACE_INFO = 70,
	RECORD_AUXTRACE = 71,
	RECORD_AUXTRACE_ERROR = 72,
	RECORD_FEATURE = 80,
	RECORD_COMPRESSED = 81,
	RECORD_FINISHED_INIT = 82,
	RECORD_COMPRESSED2 = 83,
};
#define FEATURE_TRACING_DATA 1

/* Far more than a real recording has for its size, even packed as tightly as zstd can. */
#define RECORDS_BASE (2u << 20)
#define RECORDS_PER_BYTE 2

#define HEADER_SIZE 8
#define NO_TIME UINT64_MAX
#define FIRST_OF_PERF 64 /* from this type on, records are perf's own */

static const char magic[8] = "PERFILE2", magic_big_endian[8] = "2ELIFREP",
		  magic_old[8] = "PERFFILE";

struct reader {
	struct perf_file *f;
	struct perf_unpacker *unpacker;
	uint64_t last_time;
	size_t most_records;
	bool is_pipe;
	bool is_unpacked; /* the records come from the unpacked data */
};

bool perf_file_is(const void *bytes, size_t size)
{
	return size >= 8 && (!memcmp(bytes, magic, 8) || !memcmp(bytes, magic_big_endian, 8) ||
			     !memcmp(bytes, magic_old, 8));
}

static uint64_t word(const struct perf_record *r, size_t at)
{
	uint64_t value = 0;

	if (r->size >= 8 && at <= r->size - 8)
		memcpy(&value, r->body + at, 8);
	return value;
}

static size_t count_bits(uint64_t word, uint64_t mask)
{
	return __builtin_popcountll(word & mask);
}

/* A sample begins with these, in this order. */
static size_t offset_in_sample(uint64_t type, uint64_t bit)
{
	static const uint64_t order[] = {PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,   PERF_SAMPLE_TID,
					 PERF_SAMPLE_TIME,       PERF_SAMPLE_ADDR, PERF_SAMPLE_ID};
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(order) && order[i] != bit; i++)
		at += type & order[i] ? 8 : 0;
	return at;
}

/* Other records end with these. */
#define BEHIND_TIME \
	(PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

/* perf makes sure that all events of a file have their time at the same place. */
static uint64_t time_of(const struct perf_file *f, const struct perf_record *r)
{
	const struct perf_attr *attr =
		r->type == PERF_RECORD_SAMPLE ? perf_file_attr(f, r) : f->attrs;
	size_t behind;

	if (!attr || !(attr->sample_type & PERF_SAMPLE_TIME))
		return NO_TIME;
	if (r->type == PERF_RECORD_SAMPLE)
		return word(r, offset_in_sample(attr->sample_type, PERF_SAMPLE_TIME));
	behind = 8 * (1 + count_bits(attr->sample_type, BEHIND_TIME));
	return attr->ids_everywhere && r->size >= behind ? word(r, r->size - behind) : NO_TIME;
}

const struct perf_attr *perf_file_attr(const struct perf_file *f, const struct perf_record *sample)
{
	uint64_t type = f->attr_count ? f->attrs[0].sample_type : 0, id;
	const uint64_t *place;

	if (f->attr_count <= 1)
		return f->attrs;
	if (type & PERF_SAMPLE_IDENTIFIER)
		id = word(sample, 0);
	else if (type & PERF_SAMPLE_ID)
		id = word(sample, offset_in_sample(type, PERF_SAMPLE_ID));
	else
		return f->attrs;
	place = map_find(&f->ids, id);
	return place && *place <= f->attr_count ? &f->attrs[*place - 1] : NULL;
}

static int by_path(const void *a, const void *b)
{
	const struct perf_build_id *x = a, *y = b;

	return strcmp(x->path, y->path);
}

const char *perf_file_build_id(const struct perf_file *f, const char *path)
{
	struct perf_build_id wanted = {.path = path}, *found = NULL;

	if (f->build_id_count)
		found = bsearch(&wanted, f->build_ids, f->build_id_count, sizeof(wanted), by_path);
	return found ? found->id : NULL;
}

static struct error *add_record(struct reader *r, struct perf_record record)
{
	struct perf_file *f = r->f;

	f->lost += record.type == PERF_RECORD_LOST ? word(&record, 8) : 0;
	f->lost += record.type == PERF_RECORD_LOST_SAMPLES ? word(&record, 0) : 0;
	f->has_aux |= record.type == PERF_RECORD_AUX;
	record.time = record.type < FIRST_OF_PERF ? time_of(f, &record) : NO_TIME;
	if (record.time == NO_TIME)
		record.time = r->last_time;
	r->last_time = record.time;
	if (f->count >= r->most_records) {
		f->too_large = true;
		return NULL;
	}
	if (!array_reserve(&f->records, &f->capacity, f->count + 1))
		return &error_no_memory;
	f->records[f->count++] = record;
	return record.type == PERF_RECORD_MMAP2 ? perf_read_mapped_id(f, &record) : NULL;
}

/* In a pipe, an attribute is a record; its ids fill the rest of it. */
static struct error *add_attr(struct reader *r, const struct perf_record *record)
{
	uint32_t size = word(record, 0) >> 32;
	struct bytes attr = {record->body, size ? size : PERF_ATTR_SIZE_VER0};

	if (!r->is_pipe)
		return NULL;
	if (attr.size > record->size)
		return error_format(ERROR_CORRUPT,
				    "it is corrupt: an event attribute is truncated");
	return perf_read_attr(r->f, attr,
			      (struct bytes){record->body + attr.size, record->size - attr.size});
}

static struct error *unpack(struct reader *r, const struct perf_record *record)
{
	struct bytes packed = {record->body, record->size};

	/* perf packs nothing twice. */
	if (r->is_unpacked) {
		r->f->cut = true;
		return NULL;
	}

	if (record->type == RECORD_COMPRESSED2 && packed.size >= 8) {
		uint64_t size = word(record, 0);

		packed = (struct bytes){packed.data + 8, packed.size - 8};
		packed.size = size < packed.size ? size : packed.size;
	}
	return perf_unpack(r->unpacker, packed);
}

static unsigned int feature_number(const struct perf_record *record)
{
	uint64_t number = word(record, 0);

	return number < PERF_FEATURES ? number : PERF_FEATURES;
}

static struct error *take_record(struct reader *r, const struct perf_record *record)
{
	switch (record->type) {
	case RECORD_ATTR:
		return add_attr(r, record);
	case RECORD_BUILD_ID:
		return perf_read_build_id(r->f, record->misc,
					  (struct bytes){record->body, record->size});
	case RECORD_FEATURE:
		if (record->size < 8)
			return NULL;
		return perf_read_feature(r->f, feature_number(record),
					 (struct bytes){record->body + 8, record->size - 8});
	case RECORD_COMPRESSED:
	case RECORD_COMPRESSED2:
		return unpack(r, record);
	/* Their meaning depends on their place in the file, or on data behind them. */
	case RECORD_EVENT_TYPE:
	case RECORD_TRACING_DATA:
	case RECORD_FINISHED_ROUND:
	case RECORD_AUXTRACE_INFO:
	case RECORD_AUXTRACE:
	case RECORD_AUXTRACE_ERROR:
	case RECORD_FINISHED_INIT:
		return NULL;
	default:
		return add_record(r, *record);
	}
}

/* Bytes behind a record that its size does not count. */
static uint64_t size_behind(const struct reader *r, const struct perf_record *record)
{
	if (record->type == RECORD_AUXTRACE)
		return word(record, 0);
	if (record->type == RECORD_TRACING_DATA && record->size >= 4 && r->is_pipe) {
		uint32_t size;

		memcpy(&size, record->body, sizeof(size));
		return ((uint64_t)size + 7) & ~7ull;
	}
	return 0;
}

static struct error *read_records(struct reader *r, struct bytes data)
{
	struct error *err = NULL;

	while (!err && data.size >= HEADER_SIZE) {
		struct perf_record record = {.body = data.data + HEADER_SIZE};
		uint16_t size;
		uint64_t behind;

		memcpy(&record.type, data.data, 4);
		memcpy(&record.misc, data.data + 4, 2);
		memcpy(&size, data.data + 6, 2);
		if (size < HEADER_SIZE || size > data.size)
			break;
		record.size = size - HEADER_SIZE;
		err = take_record(r, &record);
		behind = size_behind(r, &record);
		data = (struct bytes){data.data + size, data.size - size};
		if (behind > data.size)
			break;
		if (record.type == RECORD_TRACING_DATA && behind)
			r->f->features[FEATURE_TRACING_DATA] = (struct bytes){data.data, behind};
		data = (struct bytes){data.data + behind, data.size - behind};
	}
	r->f->cut |= data.size > 0;
	return err;
}

/* A merge sort, which keeps the order of equal ones; qsort() does so only while memory is plenty.
 */
static bool sort_records(struct perf_file *f)
{
	_cleanup_free_ struct perf_record *other = calloc(f->count + 1, sizeof(*other));
	struct perf_record *from = f->records, *to = other, *swap;

	if (!other)
		return false;
	for (size_t width = 1; width < f->count; width *= 2, swap = from, from = to, to = swap) {
		for (size_t start = 0; start < f->count; start += 2 * width) {
			size_t a = start, a_end = start + width, b = a_end,
			       b_end = start + 2 * width;

			a_end = a_end < f->count ? a_end : f->count;
			b = b < f->count ? b : f->count;
			b_end = b_end < f->count ? b_end : f->count;
			for (size_t k = start; k < b_end; k++)
				to[k] = a < a_end && (b >= b_end || from[a].time <= from[b].time)
						? from[a++]
						: from[b++];
		}
	}
	if (from != f->records && f->count)
		memcpy(f->records, from, f->count * sizeof(*from));
	return true;
}

static struct error *check_magic(const void *bytes)
{
	if (!memcmp(bytes, magic_big_endian, 8))
		return error_format(
			ERROR_UNSUPPORTED,
			"it comes from a big-endian machine; gospect reads perf.data of amd64 and "
			"arm64");
	if (!memcmp(bytes, magic_old, 8))
		return error_format(
			ERROR_UNSUPPORTED,
			"it was written by a perf older than Linux 3.3; record it with a newer one");
	return NULL;
}

static struct error *read_all(struct reader *r, struct bytes file)
{
	struct perf_file *f = r->f;
	struct bytes data, unpacked = {0};
	struct error *err = perf_read_header(f, file, &data, &r->is_pipe);

	r->most_records = RECORDS_BASE + RECORDS_PER_BYTE * file.size;
	r->unpacker = perf_unpacker_create(file.size);
	if (!err && !r->unpacker)
		err = &error_no_memory;
	if (!err)
		err = read_records(r, data);
	f->unpacked = perf_unpacked(take_ptr(r->unpacker), &unpacked.size, &f->too_large);
	unpacked.data = f->unpacked;
	r->is_unpacked = true;
	if (!err && unpacked.size)
		err = read_records(r, unpacked);
	if (!err && !f->attr_count)
		err = error_format(ERROR_CORRUPT,
				   "it is truncated before its first event; record it again");
	if (f->build_id_count)
		qsort(f->build_ids, f->build_id_count, sizeof(*f->build_ids), by_path);
	if (!err && !sort_records(f))
		err = &error_no_memory;
	return err;
}

struct error *perf_file_read(const void *bytes, size_t size, struct perf_file *ret)
{
	_cleanup_perf_file_ struct perf_file f = {0};
	struct reader r = {.f = &f};
	struct error *err;

	if (!perf_file_is(bytes, size) || size < 16)
		return error_format(ERROR_CORRUPT, "it is not a perf.data file");
	err = check_magic(bytes);
	if (!err)
		err = read_all(&r, (struct bytes){bytes, size});
	if (err)
		return err;
	*ret = f;
	f = (struct perf_file){0};
	return NULL;
}

void perf_file_release(struct perf_file *f)
{
	free(f->attrs);
	free(f->records);
	free(f->build_ids);
	free(f->unpacked);
	map_release(&f->ids);
	*f = (struct perf_file){0};
}
