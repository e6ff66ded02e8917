/* Source of the format: tools/perf/Documentation/perf.data-file-format.txt and util/header.c. */
#include "perfdata/perf_rewrite.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

#define HEADER_SIZE 104
#define SECTION_SIZE 16
#define RECORD_HEADER 8
/* The size of a record has 16 bits, and is a multiple of 8. */
#define MAX_RECORD 65528
/* A record of perf's: all before the last but one of these are older than all that follow. Without
 * them perf keeps the whole file in memory to sort it. */
#define FINISHED_ROUND 68
#define ROUND 8192

/* Features by their number (tools/perf/util/header.h): those of data that the result lacks. */
enum {
	FEATURE_BUILD_ID = 2,
	FEATURE_EVENT_DESC = 12,
	FEATURE_AUXTRACE = 18,
	FEATURE_DIR_FORMAT = 24,
	FEATURE_COMPRESSED = 27,
};

/* Offsets in struct perf_event_attr. */
enum { ATTR_SIZE = 4, ATTR_TYPE = 24, ATTR_FLAGS = 40, ATTR_REGISTERS = 80, ATTR_STACK = 88 };
#define EXCLUDE_CALLCHAIN_USER (1ull << 22)

#define USER_STACK (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define ADDRESS_MASK ((1ull << 48) - 1)

static void put_u64(struct strbuf *sb, uint64_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void put_section(struct strbuf *sb, uint64_t offset, uint64_t size)
{
	put_u64(sb, offset);
	put_u64(sb, size);
}

/* Whether samples of the event get a new callchain. */
static bool changes(uint64_t sample_type)
{
	return sample_type & PERF_SAMPLE_CALLCHAIN || (sample_type & USER_STACK) == USER_STACK;
}

static void put_record(struct perf_rewriter *w, uint32_t type, uint16_t misc, size_t size)
{
	struct perf_event_header header = {type, misc, size};

	strbuf_add(&w->data, &header, sizeof(header));
}

/* Records are in the order of their times. */
static void count_record(struct perf_rewriter *w)
{
	if (w->file->attrs[0].sample_type & PERF_SAMPLE_TIME && ++w->records % ROUND == 0)
		put_record(w, FINISHED_ROUND, 0, RECORD_HEADER);
}

void perf_rewriter_copy(struct perf_rewriter *w, const struct perf_record *record)
{
	put_record(w, record->type, record->misc, record->size + RECORD_HEADER);
	strbuf_add(&w->data, record->body, record->size);
	count_record(w);
}

/* The kernel's part of the recorded callchain: all but the user's. */
static void put_kernel(struct perf_rewriter *w, const struct recorded_sample *s)
{
	uint64_t context = s->in_kernel ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER;

	if (!s->chain_count && s->in_kernel && s->ip) {
		put_u64(&w->chain, PERF_CONTEXT_KERNEL);
		put_u64(&w->chain, s->ip);
	}
	for (size_t i = 0; i < s->chain_count; i++) {
		uint64_t word = recorded_chain(s, i);

		if (word >= (uint64_t)PERF_CONTEXT_MAX)
			context = word;
		if (context != (uint64_t)PERF_CONTEXT_USER)
			put_u64(&w->chain, word);
	}
}

/* perf takes the function at the return address. Where the call is the function's last
 * instruction, that would be the next function. */
static uint64_t address_of(uint64_t word, const struct pclntab *functions)
{
	uint64_t address = word & ADDRESS_MASK;
	struct go_func f;

	if (stack_pc_is_pseudo(word))
		return 0;
	if (functions && !(word & STACK_PC_EXACT) && pclntab_find(functions, address - 1, &f) &&
	    f.end == address)
		return address - 1;
	return address;
}

/* Roots that name what a thread did, and the kernel's part, are no callers. */
static bool is_caller(uint64_t word)
{
	return !stack_pc_is_pseudo(word) || word == STACK_PC_TRUNCATED ||
	       word == STACK_PC_UNKNOWN || word == STACK_PC_NO_CALLER;
}

static void put_user(struct perf_rewriter *w, const struct stack *words,
		     const struct pclntab *functions)
{
	bool begun = false;

	for (uint32_t i = 0; i < words->count; i++) {
		if (!is_caller(words->pcs[i]))
			continue;
		if (!begun)
			put_u64(&w->chain, PERF_CONTEXT_USER);
		begun = true;
		put_u64(&w->chain, address_of(words->pcs[i], functions));
	}
}

void perf_rewriter_sample(struct perf_rewriter *w, const struct perf_record *record,
			  const struct perf_attr *attr, const struct recorded_sample *s,
			  const struct stack *words, const struct pclntab *functions)
{
	size_t others = RECORD_HEADER + 8 + s->chain_at + (s->user_at - s->chain_end) +
			(record->size - s->user_end);
	uint64_t count;

	if (!changes(attr->sample_type)) {
		perf_rewriter_copy(w, record);
		return;
	}
	if (others > MAX_RECORD || others % 8) {
		w->left_out++;
		return;
	}
	strbuf_reset(&w->chain);
	put_kernel(w, s);
	put_user(w, words, functions);
	count = w->chain.length / 8;
	if (count > (MAX_RECORD - others) / 8)
		count = (MAX_RECORD - others) / 8;
	put_record(w, record->type, record->misc, others + 8 * count);
	strbuf_add(&w->data, record->body, s->chain_at);
	put_u64(&w->data, count);
	strbuf_add(&w->data, w->chain.data, 8 * count);
	strbuf_add(&w->data, record->body + s->chain_end, s->user_at - s->chain_end);
	strbuf_add(&w->data, record->body + s->user_end, record->size - s->user_end);
	w->chain.failed |= w->data.failed;
	count_record(w);
}

/* The attribute of `attr.size` bytes at `at`, as that of the new samples. */
static void change_attr(char *at, size_t size)
{
	uint64_t type, flags;

	if (size < PERF_ATTR_SIZE_VER0)
		return;
	memcpy(&type, at + ATTR_TYPE, sizeof(type));
	memcpy(&flags, at + ATTR_FLAGS, sizeof(flags));
	if (!changes(type))
		return;
	type = (type & ~(uint64_t)USER_STACK) | PERF_SAMPLE_CALLCHAIN;
	flags |= EXCLUDE_CALLCHAIN_USER; /* perf_attr.is_rewritten */
	memcpy(at + ATTR_TYPE, &type, sizeof(type));
	memcpy(at + ATTR_FLAGS, &flags, sizeof(flags));
	if (size >= ATTR_STACK + 4)
		memset(at + ATTR_REGISTERS, 0, ATTR_STACK + 4 - ATTR_REGISTERS);
}

static size_t largest_attr(const struct perf_file *f)
{
	size_t size = 0;

	for (size_t i = 0; i < f->attr_count; i++)
		size = f->attrs[i].raw.size > size ? f->attrs[i].raw.size : size;
	return size;
}

/* Each attribute has the same size, as perf reads them; `at` is where the ids of the first are. */
static void put_attrs(const struct perf_file *f, struct strbuf *sb, uint64_t at)
{
	size_t size = largest_attr(f);

	for (size_t i = 0; i < f->attr_count; i++) {
		const struct perf_attr *attr = &f->attrs[i];
		char *raw = strbuf_reserve(sb, size);
		uint32_t size32 = size;

		if (!raw)
			return;
		memset(raw, 0, size);
		memcpy(raw, attr->raw.data, attr->raw.size);
		memcpy(raw + ATTR_SIZE, &size32, sizeof(size32));
		change_attr(raw, size);
		sb->length += size;
		put_section(sb, at, attr->ids.size);
		at += attr->ids.size;
	}
}

static bool has_build_ids(const struct perf_file *f)
{
	for (size_t i = 0; i < f->build_id_count; i++)
		if (f->build_ids[i].record.size)
			return true;
	return false;
}

static bool is_copied(const struct perf_file *f, unsigned int number)
{
	if (number == FEATURE_BUILD_ID)
		return has_build_ids(f);
	return f->features[number].data && number != FEATURE_AUXTRACE &&
	       number != FEATURE_DIR_FORMAT && number != FEATURE_COMPRESSED;
}

static uint32_t u32_at(const char *bytes, size_t at)
{
	uint32_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

/* The description of events has their attributes again, each with its ids and its name. */
static void change_descriptions(char *bytes, size_t size)
{
	uint32_t count, attr_size;
	size_t at = 8;

	if (size < at)
		return;
	count = u32_at(bytes, 0);
	attr_size = u32_at(bytes, 4);
	while (count-- && attr_size <= size - at && size - at - attr_size >= 8) {
		uint64_t ids = u32_at(bytes, at + attr_size),
			 name = u32_at(bytes, at + attr_size + 4);

		change_attr(bytes + at, attr_size);
		at += attr_size + 8;
		if (name + 8 * ids > size - at)
			return;
		at += name + 8 * ids;
	}
}

static void put_feature(const struct perf_file *f, unsigned int number, struct strbuf *sb)
{
	size_t from = sb->length;

	if (number != FEATURE_BUILD_ID) {
		strbuf_add(sb, f->features[number].data, f->features[number].size);
	} else {
		for (size_t i = 0; i < f->build_id_count; i++)
			strbuf_add(sb, f->build_ids[i].record.data, f->build_ids[i].record.size);
	}
	if (number == FEATURE_EVENT_DESC && !sb->failed)
		change_descriptions(sb->data + from, sb->length - from);
}

/* Behind the records: where each feature is, in the order of their numbers; then these. */
static void put_features(const struct perf_file *f, uint64_t at, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf contents = STRBUF_INIT;
	size_t count = 0;

	for (unsigned int i = 0; i < PERF_FEATURES; i++)
		count += is_copied(f, i);
	at += count * SECTION_SIZE;
	for (unsigned int i = 0; i < PERF_FEATURES; i++) {
		size_t from = contents.length;

		if (!is_copied(f, i))
			continue;
		put_feature(f, i, &contents);
		put_section(sb, at + from, contents.length - from);
	}
	strbuf_add(sb, contents.data, contents.length);
	sb->failed |= contents.failed;
}

/* All in front of the records. */
static void put_header(const struct perf_rewriter *w, struct strbuf *sb)
{
	const struct perf_file *f = w->file;
	size_t entry = largest_attr(f) + SECTION_SIZE, ids = 0;
	uint64_t features[PERF_FEATURES / 64] = {0};

	for (size_t i = 0; i < f->attr_count; i++)
		ids += f->attrs[i].ids.size;
	for (unsigned int i = 0; i < PERF_FEATURES; i++)
		features[i / 64] |= (uint64_t)is_copied(f, i) << i % 64;
	strbuf_adds(sb, "PERFILE2");
	put_u64(sb, HEADER_SIZE);
	put_u64(sb, entry);
	put_section(sb, HEADER_SIZE + ids, entry * f->attr_count);
	put_section(sb, HEADER_SIZE + ids + entry * f->attr_count, w->data.length);
	put_section(sb, 0, 0);
	strbuf_add(sb, features, sizeof(features));
	for (size_t i = 0; i < f->attr_count; i++)
		strbuf_add(sb, f->attrs[i].ids.data, f->attrs[i].ids.size);
	put_attrs(f, sb, HEADER_SIZE);
}

struct error *perf_rewriter_write(struct perf_rewriter *w, FILE *out)
{
	_cleanup_strbuf_ struct strbuf header = STRBUF_INIT, features = STRBUF_INIT;

	put_header(w, &header);
	put_features(w->file, header.length + w->data.length, &features);
	if (w->data.failed || w->chain.failed || header.failed || features.failed)
		return &error_no_memory;
	if (fwrite(header.data, 1, header.length, out) != header.length ||
	    fwrite(w->data.data, 1, w->data.length, out) != w->data.length ||
	    fwrite(features.data, 1, features.length, out) != features.length)
		return error_errno(ERROR_FAILED, errno, "cannot write the output");
	return NULL;
}

void perf_rewriter_release(struct perf_rewriter *w)
{
	strbuf_release(&w->data);
	strbuf_release(&w->chain);
}
