/* The parts before and behind the records: attributes, event ids, features. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "perfdata/perf_read.h"

/* tools/perf/util/header.h: the features that gospect reads. */
enum { FEATURE_BUILD_ID = 2, FEATURE_HOST = 3, FEATURE_VERSION = 5, FEATURE_MACHINE = 6 };

#define FILE_HEADER_SIZE 104
#define PIPE_HEADER_SIZE 16
/* Size of the id section behind an attr in the header. */
#define SECTION_SIZE 16
#define MAX_ATTRS 65536
#define RECORD_HEADER 8
#define SHA1_SIZE 20
/* In PERF_RECORD_MMAP2, instead of the inode: the size of the build id; 3 bytes on, the id. */
#define MAPPED_ID_AT 32
#define MAX_MAPPED_IDS 65536
#define HAS_SIZE (1u << 15) /* PERF_RECORD_MISC_BUILD_ID_SIZE */

static uint64_t u64_at(struct bytes b, size_t at)
{
	uint64_t value = 0;

	if (b.size >= sizeof(value) && at <= b.size - sizeof(value))
		memcpy(&value, b.data + at, sizeof(value));
	return value;
}

static uint32_t u32_at(struct bytes b, size_t at)
{
	return u64_at((struct bytes){b.data, b.size}, at & ~(size_t)7) >> (at & 7) * 8;
}

/* The part of a section that the file has. */
static struct bytes section(struct bytes file, uint64_t offset, uint64_t size)
{
	if (offset > file.size)
		return (struct bytes){file.data, 0};
	if (size > file.size - offset)
		size = file.size - offset;
	return (struct bytes){file.data + offset, size};
}

static struct error *add_ids(struct perf_file *f, struct bytes ids)
{
	for (size_t at = 0; ids.size - at >= 8; at += 8) {
		uint64_t id = u64_at(ids, at), *place;

		if (id == MAP_NO_KEY)
			continue;
		place = map_at(&f->ids, id);
		if (!place)
			return &error_no_memory;
		*place = f->attr_count;
	}
	return NULL;
}

struct error *perf_read_attr(struct perf_file *f, struct bytes attr, struct bytes ids)
{
	uint64_t flags = u64_at(attr, 40);
	struct perf_attr *new;

	if (attr.size < PERF_ATTR_SIZE_VER0 || f->attr_count >= MAX_ATTRS)
		return error_format(
			ERROR_CORRUPT,
			"it is corrupt: its event attributes have an invalid size or number");
	if (!array_reserve(&f->attrs, &f->attr_capacity, f->attr_count + 1))
		return &error_no_memory;
	new = &f->attrs[f->attr_count++];
	*new = (struct perf_attr){
		.type = u32_at(attr, 0),
		.config = u64_at(attr, 8),
		.period = flags >> 10 & 1 ? 0 : u64_at(attr, 16),
		.sample_type = u64_at(attr, 24),
		.read_format = u64_at(attr, 32),
		.branch_type = u64_at(attr, 72),
		.registers = u64_at(attr, 80),
		.stack_size = u64_at(attr, 88) & UINT32_MAX,
		.ids_everywhere = flags >> 18 & 1,
		.is_rewritten = flags >> 22 & 1 && !(u64_at(attr, 24) & PERF_SAMPLE_STACK_USER),
		.raw = attr,
		.ids = ids,
	};
	return add_ids(f, ids);
}

/* Each entry is an attribute, as large as in the perf that wrote it, and the section of its ids. */
static struct error *read_attrs(struct perf_file *f, struct bytes file, struct bytes attrs,
				uint64_t entry)
{
	struct error *err = NULL;

	if (entry < PERF_ATTR_SIZE_VER0 + SECTION_SIZE || entry > 4096)
		return error_format(
			ERROR_CORRUPT,
			"it is corrupt: its header claims event attributes of %llu bytes",
			(unsigned long long)entry);
	for (size_t at = 0; !err && attrs.size - at >= entry; at += entry) {
		struct bytes attr = {attrs.data + at, entry - SECTION_SIZE};
		struct bytes where = {attr.data + attr.size, SECTION_SIZE};

		err = perf_read_attr(f, attr, section(file, u64_at(where, 0), u64_at(where, 8)));
	}
	return err;
}

static void take_string(struct bytes bytes, char *ret, size_t size)
{
	struct bytes text = section(bytes, 4, u32_at(bytes, 0));

	if (text.size >= size)
		text.size = size - 1;
	memcpy(ret, text.data, text.size);
	ret[text.size] = 0;
}

static struct error *add_build_id(struct perf_file *f, const char *path, struct bytes id,
				  struct bytes record)
{
	struct perf_build_id *new;

	if (!array_reserve(&f->build_ids, &f->build_id_capacity, f->build_id_count + 1))
		return &error_no_memory;
	new = &f->build_ids[f->build_id_count++];
	new->path = path;
	new->record = record;
	for (size_t i = 0; i < id.size; i++)
		snprintf(new->id + 2 * i, 3, "%02x", id.data[i]);
	return NULL;
}

struct error *perf_read_build_id(struct perf_file *f, uint16_t misc, struct bytes body)
{
	struct cursor c = cursor_of(body.data, body.size, "a build id");
	const uint8_t *id = (cursor_u32(&c), cursor_bytes(&c, 24));
	const char *path = cursor_string(&c);
	size_t size = SHA1_SIZE;

	if (!path)
		return NULL;
	if (misc & HAS_SIZE && id[SHA1_SIZE] < size)
		size = id[SHA1_SIZE];
	return add_build_id(f, path, (struct bytes){id, size},
			    (struct bytes){body.data - RECORD_HEADER, body.size + RECORD_HEADER});
}

struct error *perf_read_mapped_id(struct perf_file *f, const struct perf_record *r)
{
	struct cursor c = cursor_of(r->body, r->size, "a mapping");
	const uint8_t *id = (cursor_bytes(&c, MAPPED_ID_AT), cursor_bytes(&c, 4 + SHA1_SIZE));
	const char *path = (cursor_bytes(&c, 8), cursor_string(&c));

	if (!(r->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) || !path || id[0] > SHA1_SIZE ||
	    f->build_id_count >= MAX_MAPPED_IDS)
		return NULL;
	return add_build_id(f, path, (struct bytes){id + 4, id[0]}, (struct bytes){0});
}

static struct error *read_build_ids(struct perf_file *f, struct bytes bytes)
{
	struct error *err = NULL;

	while (!err && bytes.size >= 8) {
		uint16_t misc = u32_at(bytes, 4), size = u32_at(bytes, 4) >> 16;

		if (size < 8 || size > bytes.size)
			break;
		err = perf_read_build_id(f, misc, (struct bytes){bytes.data + 8, size - 8});
		bytes = (struct bytes){bytes.data + size, bytes.size - size};
	}
	return err;
}

struct error *perf_read_feature(struct perf_file *f, unsigned int number, struct bytes bytes)
{
	if (number < PERF_FEATURES)
		f->features[number] = bytes;
	switch (number) {
	case FEATURE_BUILD_ID:
		return read_build_ids(f, bytes);
	case FEATURE_HOST:
		take_string(bytes, f->host, sizeof(f->host));
		return NULL;
	case FEATURE_VERSION:
		take_string(bytes, f->version, sizeof(f->version));
		return NULL;
	case FEATURE_MACHINE:
		take_string(bytes, f->machine, sizeof(f->machine));
		return NULL;
	}
	return NULL;
}

/* Behind the data there is a section for each bit that is set, in that order. */
static struct error *read_features(struct perf_file *f, struct bytes file, uint64_t at)
{
	struct error *err = NULL;

	for (unsigned int i = 0; !err && i < PERF_FEATURES; i++) {
		struct bytes where, feature;

		if (!(u64_at(file, 72 + i / 64 * 8) >> i % 64 & 1))
			continue;
		where = section(file, at, SECTION_SIZE);
		at += SECTION_SIZE;
		feature = section(file, u64_at(where, 0), u64_at(where, 8));
		f->cut |= where.size < SECTION_SIZE || feature.size < u64_at(where, 8);
		err = perf_read_feature(f, i, feature);
	}
	return err;
}

struct error *perf_read_header(struct perf_file *f, struct bytes file, struct bytes *ret_data,
			       bool *ret_is_pipe)
{
	uint64_t size = u64_at(file, 8), data_at = u64_at(file, 40), data_size = u64_at(file, 48);
	struct error *err;

	*ret_is_pipe = size == PIPE_HEADER_SIZE;
	if (*ret_is_pipe) {
		*ret_data = section(file, size, UINT64_MAX);
		return NULL;
	}
	if (size != FILE_HEADER_SIZE || file.size < FILE_HEADER_SIZE)
		return error_format(
			ERROR_CORRUPT,
			"its perf.data header is truncated or corrupt; record it again");
	err = read_attrs(f, file, section(file, u64_at(file, 24), u64_at(file, 32)),
			 u64_at(file, 16));
	if (err)
		return err;
	f->unfinished = !data_size;
	*ret_data = section(file, data_at, data_size ? data_size : UINT64_MAX);
	f->cut = ret_data->size < data_size;
	return f->unfinished || f->cut ? NULL : read_features(f, file, data_at + data_size);
}
