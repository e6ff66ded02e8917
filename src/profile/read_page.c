/* Reads a page (html.c): numbers in columns, texts as JSON. */
#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/rebuild.h"

#define FORMAT 4
#define DEEPEST 16
#define MOST_BYTES (512u << 20)
/* Limit of the inflated numbers: zlib compresses at most 1032:1. */
#define MOST_INFLATED (1ull << 30)
/* Limit for all stacks: a tree of few nodes can mean a million deep stacks. */
#define MOST_FRAMES (1u << 24)
/* Of source, in one piece. */
#define MOST_LINES (1u << 20)

static const char begin[] = "<script type=\"application/json\" id=\"profile\">";
static const char end[] = "</script>";

struct page {
	struct json_object *root;
	uint8_t *numbers;
	size_t size;
	size_t at;
	bool failed;        /* a number is missing, or too large */
	uint64_t *lines[3]; /* function, file, line */
	uint64_t *nodes[2]; /* parent, line */
	uint64_t *samples[12];
	size_t line_count, node_count, sample_count;
	size_t frames; /* of all stacks, so far */
};

enum {
	NODE,
	STATE,
	WAIT,
	LABELS,
	AWAITS,
	COUNT,
	WALL,
	CPU,
	IDLE_COUNT,
	IDLE_NS,
	LONGEST,
	GOROUTINE
};

static void page_release(struct page *p)
{
	json_object_put(p->root);
	free(p->numbers);
	for (size_t i = 0; i < ARRAY_SIZE(p->lines); i++)
		free(p->lines[i]);
	for (size_t i = 0; i < ARRAY_SIZE(p->nodes); i++)
		free(p->nodes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(p->samples); i++)
		free(p->samples[i]);
}

bool page_is(const void *bytes, size_t size)
{
	static const char doctype[] = "<!DOCTYPE html>";

	return size >= sizeof(doctype) - 1 && !memcmp(bytes, doctype, sizeof(doctype) - 1);
}

static struct json_object *member(struct json_object *of, const char *name, enum json_type type)
{
	struct json_object *ret = NULL;

	if (!json_object_is_type(of, json_type_object) ||
	    !json_object_object_get_ex(of, name, &ret))
		return NULL;
	return json_object_is_type(ret, type) ? ret : NULL;
}

static uint64_t number(struct json_object *of, const char *name)
{
	struct json_object *value = member(of, name, json_type_int);
	int64_t ret = value ? json_object_get_int64(value) : 0;

	return ret > 0 ? ret : 0;
}

static struct error *parse(struct page *p, const char *bytes, size_t size)
{
	const char *from = memmem(bytes, size, begin, strlen(begin)), *to;
	struct json_tokener *tokener;
	struct json_object *sizes;

	if (!from)
		return rebuild_corrupt("it is no page of gospect");
	from += strlen(begin);
	to = memmem(from, bytes + size - from, end, strlen(end));
	if (!to || to - from > INT_MAX)
		return rebuild_corrupt("its data is cut");
	tokener = json_tokener_new_ex(DEEPEST);
	p->root = tokener ? json_tokener_parse_ex(tokener, from, to - from) : NULL;
	if (tokener)
		json_tokener_free(tokener);
	if (number(p->root, "version") != FORMAT)
		return rebuild_corrupt(
			"its data is of another version; write the page again with this gospect");
	sizes = member(p->root, "sizes", json_type_object);
	p->line_count = number(sizes, "lines");
	p->node_count = number(sizes, "nodes");
	p->sample_count = number(sizes, "samples");
	return NULL;
}

static int digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? at - digits : -1;
}

/* Decodes base64. `ret` has room for 3/4 of the length. */
static size_t decode(const char *text, size_t length, uint8_t *ret)
{
	uint32_t bits = 0;
	size_t count = 0, n = 0;

	for (size_t i = 0; i < length && digit(text[i]) >= 0; i++) {
		bits = bits << 6 | digit(text[i]);
		n += 6;
		if (n >= 8)
			ret[count++] = bits >> (n -= 8);
	}
	return count;
}

static struct error *inflate_numbers(struct page *p)
{
	struct json_object *packed = member(p->root, "packed", json_type_string);
	size_t length = packed ? json_object_get_string_len(packed) : 0, capacity = 0;
	_cleanup_free_ uint8_t *bytes = malloc(length + 1);
	z_stream z = {0};
	int status = Z_OK;

	if (!bytes || inflateInit(&z) != Z_OK)
		return &error_no_memory;
	z.next_in = bytes;
	z.avail_in = decode(packed ? json_object_get_string(packed) : "", length, bytes);
	while (status == Z_OK && p->size < MOST_INFLATED) {
		if (!array_reserve(&p->numbers, &capacity, p->size + (1 << 16)))
			status = Z_MEM_ERROR;
		z.next_out = p->numbers + p->size;
		z.avail_out = capacity - p->size < UINT_MAX ? capacity - p->size : UINT_MAX;
		if (status == Z_OK)
			status = inflate(&z, Z_NO_FLUSH);
		p->size = z.total_out;
	}
	inflateEnd(&z);
	if (status == Z_MEM_ERROR)
		return &error_no_memory;
	return status == Z_STREAM_END ? NULL : rebuild_corrupt("its numbers are damaged");
}

static uint64_t next(struct page *p)
{
	uint64_t value = 0;
	unsigned int shift = 0;

	for (; p->at < p->size && shift < 63; shift += 7) {
		uint8_t byte = p->numbers[p->at++];

		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return value;
	}
	p->failed = true;
	return 0;
}

/* Each number takes at least a byte, so a count cannot exceed the bytes. */
static struct error *read_column(struct page *p, size_t from, size_t count, uint64_t **ret)
{
	if (count > p->size + 1)
		return rebuild_corrupt("its numbers are cut");
	*ret = calloc(count + 1, sizeof(**ret));
	if (!*ret)
		return &error_no_memory;
	for (size_t i = from; i < count; i++)
		(*ret)[i] = next(p);
	return p->failed ? rebuild_corrupt("its numbers are cut") : NULL;
}

static struct error *read_columns(struct page *p)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < ARRAY_SIZE(p->lines); i++)
		err = read_column(p, 0, p->line_count, &p->lines[i]);
	for (size_t i = 0; !err && i < ARRAY_SIZE(p->nodes); i++)
		err = read_column(p, 1, p->node_count, &p->nodes[i]);
	for (size_t i = 0; !err && i < ARRAY_SIZE(p->samples); i++)
		err = read_column(p, 0, p->sample_count, &p->samples[i]);
	return err;
}

/* The i-th text of an array of the page. Texts of the profile have other numbers. */
static const char *string_at(const struct page *p, const char *array, uint64_t i)
{
	struct json_object *strings = member(p->root, array, json_type_array);
	struct json_object *s = strings && i < json_object_array_length(strings)
					? json_object_array_get_idx(strings, i)
					: NULL;

	return json_object_is_type(s, json_type_string) ? json_object_get_string(s) : "";
}

static struct error *add_stack(struct page *p, struct rebuild *r, uint64_t node)
{
	struct error *err = NULL;

	while (!err && node) {
		uint64_t line = node < p->node_count ? p->nodes[1][node] : UINT64_MAX;
		const char *function;

		if (line >= p->line_count || p->nodes[0][node] > node || !p->nodes[0][node])
			return rebuild_corrupt("its stacks are damaged");
		if (++p->frames > MOST_FRAMES)
			return rebuild_corrupt("its stacks are too many and too deep");
		function = string_at(p, "strings", p->lines[0][line]);
		err = rebuild_frame(r, function, strlen(function),
				    string_at(p, "strings", p->lines[1][line]),
				    p->lines[2][line] <= INT_MAX ? p->lines[2][line] : 0);
		node -= p->nodes[0][node];
	}
	return err;
}

#define MOST_LABELS 256

/* Adds as many labels as fit. */
static size_t labels_of(struct page *p, struct rebuild *r, uint64_t set, struct profile_label *ret)
{
	struct json_object *sets = member(p->root, "label_sets", json_type_array);
	struct json_object *labels = sets && set < json_object_array_length(sets)
					     ? json_object_array_get_idx(sets, set)
					     : NULL;
	size_t count = json_object_is_type(labels, json_type_array)
			       ? json_object_array_length(labels) / 2
			       : 0;

	count = count < MOST_LABELS ? count : MOST_LABELS;
	for (size_t i = 0; i < count; i++) {
		const char *key = json_object_get_string(json_object_array_get_idx(labels, 2 * i));
		const char *value =
			json_object_get_string(json_object_array_get_idx(labels, 2 * i + 1));

		ret[i].key = rebuild_string(r, key ? key : "");
		ret[i].value = rebuild_string(r, value ? value : "");
		if (ret[i].key == INTERN_FAILED || ret[i].value == INTERN_FAILED)
			return SIZE_MAX;
	}
	return count;
}

static struct error *add_sample(struct page *p, struct rebuild *r, size_t i)
{
	struct profile_label labels[MOST_LABELS];
	size_t count = labels_of(p, r, p->samples[LABELS][i], labels);
	struct profile_sample sample = {
		.state = p->samples[STATE][i] < PROFILE_STATES ? p->samples[STATE][i]
							       : PROFILE_WAITING,
		.labels = labels,
		.label_count = count,
		.count = p->samples[COUNT][i],
		.wall_ns = p->samples[WALL][i],
		.cpu_ns = p->samples[CPU][i],
		.idle_count = p->samples[IDLE_COUNT][i],
		.idle_ns = p->samples[IDLE_NS][i],
		.longest_ns = p->samples[LONGEST][i],
		.longest_goroutine = p->samples[GOROUTINE][i],
	};
	struct error *err = add_stack(p, r, p->samples[NODE][i]);

	if (err)
		return err;
	if (sample.state == PROFILE_WAITING)
		sample.wait = rebuild_string(r, string_at(p, "strings", p->samples[WAIT][i]));
	if (count == SIZE_MAX || sample.wait == INTERN_FAILED)
		return &error_no_memory;
	return rebuild_sample(r, &sample);
}

/* Adds the times of `rows` rows to a timeline, from steps of columns. */
static struct error *add_steps(struct page *p, uint64_t width, size_t count, size_t rows,
			       struct timeline *ret)
{
	uint64_t row = 0, *columns[3] = {NULL};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < 3; i++)
		err = read_column(p, 0, count, &columns[i]);
	for (size_t i = 0; !err && width && i + 1 < count; i++) {
		row += columns[0][i];
		if (columns[0][i + 1] || columns[1][i + 1] <= columns[1][i] ||
		    columns[1][i + 1] > TIMELINE_MOST_COLUMNS || width > 1ull << 48 ||
		    row >= rows || columns[2][i] > 1ull << 40)
			continue;
		err = timeline_add(ret, row, columns[1][i] * width, columns[1][i + 1] * width,
				   columns[2][i] * 1000 * (columns[1][i + 1] - columns[1][i]));
	}
	for (size_t i = 0; i < 3; i++)
		free(columns[i]);
	return err;
}

static struct error *add_all_steps(struct page *p, struct profile *to)
{
	struct json_object *timeline = member(p->root, "timeline", json_type_object);
	struct json_object *sizes = member(p->root, "sizes", json_type_object);

	return add_steps(p, number(timeline, "width_ns"), number(sizes, "steps"), p->sample_count,
			 &to->timeline);
}

static void free_columns(uint64_t **columns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(columns[i]);
}

static struct error *add_rows(struct page *p, struct rebuild *r, size_t count)
{
	struct goroutine_rows *to = &r->profile->goroutines;
	uint64_t *columns[3] = {NULL}; /* goroutine, start function, longest wait */
	struct error *err = NULL;

	to->rows = calloc(count + 1, sizeof(*to->rows));
	if (!to->rows)
		return &error_no_memory;
	for (size_t i = 0; !err && i < 3; i++)
		err = read_column(p, 0, count, &columns[i]);
	for (; !err && to->count < count; to->count++) {
		const char *name = string_at(p, "strings", columns[1][to->count]);
		struct goroutine_row row = {columns[0][to->count], rebuild_string(r, name),
					    columns[2][to->count]};

		to->rows[to->count] = row;
		if (row.start == INTERN_FAILED)
			err = &error_no_memory;
	}
	free_columns(columns, 3);
	return err;
}

static struct error *add_parts(struct page *p, struct goroutine_rows *to, size_t count)
{
	uint64_t *columns[3] = {NULL}; /* row, sample, ns */
	struct error *err = NULL;

	to->parts = calloc(count + 1, sizeof(*to->parts));
	if (!to->parts)
		return &error_no_memory;
	for (size_t i = 0; !err && i < 3; i++)
		err = read_column(p, 0, count, &columns[i]);
	for (; !err && to->part_count < count; to->part_count++) {
		size_t i = to->part_count;

		if (columns[0][i] >= to->count || columns[1][i] >= p->sample_count)
			err = rebuild_corrupt("its goroutines are damaged");
		to->parts[i] = (struct goroutine_part){columns[0][i], columns[1][i], columns[2][i]};
	}
	free_columns(columns, 3);
	return err;
}

/* Adds the rows of goroutines, if the page has them. */
static struct error *add_goroutines(struct page *p, struct rebuild *r)
{
	struct json_object *of = member(p->root, "goroutines", json_type_object);
	struct goroutine_rows *to = &r->profile->goroutines;
	uint64_t rows = number(of, "rows"), parts = number(of, "parts");
	struct error *err;

	if (rows > 2 * GOROUTINE_ROWS_EACH || parts > GOROUTINE_ROWS_MOST_PARTS)
		return rebuild_corrupt("its goroutines are too many");
	if (!rows)
		return NULL;
	err = add_rows(p, r, rows);
	if (!err)
		err = add_parts(p, to, parts);
	if (!err)
		err = add_steps(p, number(of, "width_ns"), number(of, "steps"), parts,
				&to->timeline);
	to->others = number(of, "others");
	to->others_cpu_ns = number(of, "others_cpu_ns");
	to->others_wall_ns = number(of, "others_wall_ns");
	return err;
}

/* The i-th number of an array; 0: there is none. */
static uint64_t number_at(struct json_object *array, size_t i)
{
	struct json_object *value = json_object_array_get_idx(array, i);
	int64_t ret = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;

	return ret > 0 ? ret : 0;
}

enum {
	PART_BEGIN,
	PART_END,
	PART_GOROUTINE,
	PART_START,
	PART_STATE,
	PART_WAIT,
	PART_FUNCTION,
	PART_LINE,
	PART_DEPTH
};

/* A part of a path (html.c). */
static struct error *add_path_part(struct page *p, struct rebuild *r, struct json_object *of)
{
	struct request_path_part part = {0};

	if (!json_object_is_type(of, json_type_array))
		return rebuild_corrupt("its requests are damaged");
	part.begin = number_at(of, PART_BEGIN);
	part.end = number_at(of, PART_END);
	part.goroutine = number_at(of, PART_GOROUTINE);
	part.line = number_at(of, PART_LINE);
	part.depth = number_at(of, PART_DEPTH);
	part.state = number_at(of, PART_STATE) < PROFILE_STATES ? number_at(of, PART_STATE)
								: PROFILE_STATES;
	part.start = rebuild_string(r, string_at(p, "strings", number_at(of, PART_START)));
	part.wait = rebuild_string(r, string_at(p, "strings", number_at(of, PART_WAIT)));
	part.function = rebuild_string(r, string_at(p, "strings", number_at(of, PART_FUNCTION)));
	return part.start != INTERN_FAILED && part.wait != INTERN_FAILED &&
			       part.function != INTERN_FAILED &&
			       request_paths_add_part(&r->profile->requests, &part)
		       ? NULL
		       : &error_no_memory;
}

static struct error *add_request(struct page *p, struct rebuild *r, struct json_object *of)
{
	struct json_object *name = member(of, "name", json_type_string);
	struct json_object *parts = member(of, "parts", json_type_array);
	const struct request_path request = {
		.name = rebuild_string(r, name ? json_object_get_string(name) : ""),
		.goroutine = number(of, "goroutine"),
		.begin = number(of, "begin"),
		.end = number(of, "end"),
	};
	struct error *err = NULL;

	if (request.name == INTERN_FAILED)
		return &error_no_memory;
	request_paths_add(&r->profile->requests, &request);
	for (size_t i = 0; !err && parts && i < json_object_array_length(parts); i++)
		err = add_path_part(p, r, json_object_array_get_idx(parts, i));
	return err;
}

/* Adds the slowest requests, if the page has them. */
static struct error *add_requests(struct page *p, struct rebuild *r)
{
	struct json_object *of = member(p->root, "requests", json_type_array);
	size_t count = of ? json_object_array_length(of) : 0;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count && i < REQUEST_PATHS_MOST; i++)
		err = add_request(p, r, json_object_array_get_idx(of, i));
	return err;
}

/* Lines of source as one text; NULL: no memory. */
static char *lines_of(struct json_object *lines, size_t count, size_t *ret_size)
{
	size_t size = 0, at = 0;
	char *text;

	for (size_t i = 0; i < count; i++)
		size += json_object_get_string_len(json_object_array_get_idx(lines, i)) + 1;
	text = malloc(size + 1);
	for (size_t i = 0; text && i < count; i++) {
		struct json_object *line = json_object_array_get_idx(lines, i);
		size_t length = json_object_get_string_len(line);

		/* Of a line that is no text the length is 0. */
		if (length)
			memcpy(text + at, json_object_get_string(line), length);
		at += length;
		text[at++] = '\n';
	}
	*ret_size = size;
	return text;
}

/* A line is one also if a damaged file has a newline in it. */
static bool has_newline(const char *text, size_t size, size_t count)
{
	size_t newlines = 0;

	for (size_t i = 0; i < size; i++)
		newlines += text[i] == '\n';
	return newlines != count;
}

static struct error *add_fragment(struct profile *to, struct json_object *of)
{
	struct json_object *file = member(of, "file", json_type_string);
	struct json_object *lines = member(of, "lines", json_type_array);
	size_t count = lines ? json_object_array_length(lines) : 0, size;
	uint64_t first = number(of, "first");
	char *text;

	if (!file || !count || count > MOST_LINES || first > INT_MAX)
		return NULL;
	text = lines_of(lines, count, &size);
	if (!text)
		return &error_no_memory;
	if (has_newline(text, size, count)) {
		free(text);
		return NULL;
	}
	return source_fragments_add(&to->sources, json_object_get_string(file), first, count, text,
				    size)
		       ? NULL
		       : &error_no_memory;
}

static struct error *add_sources(struct page *p, struct profile *to)
{
	struct json_object *sources = member(p->root, "sources", json_type_array);
	size_t count = sources ? json_object_array_length(sources) : 0;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++)
		err = add_fragment(to, json_object_array_get_idx(sources, i));
	return err;
}

static struct error *add_header(struct page *p, struct profile *to)
{
	struct json_object *comments = member(p->root, "comments", json_type_array);
	struct json_object *command = member(p->root, "command", json_type_string);
	struct json_object *version = member(p->root, "go_version", json_type_string);
	struct error *err = NULL;

	to->time_ns = number(p->root, "time_ns");
	to->duration_ns = number(p->root, "duration_ns");
	to->period_ns = number(p->root, "period_ns");
	to->command = strdup(command ? json_object_get_string(command) : "");
	to->go_version = strdup(version ? json_object_get_string(version) : "");
	if (!to->command || !to->go_version)
		return &error_no_memory;
	for (size_t i = 0; !err && comments && i < json_object_array_length(comments); i++)
		err = profile_add_comment(to, "%s", string_at(p, "comments", i));
	return err;
}

struct error *page_read(const void *bytes, size_t size, const atomic_int *cancel,
			struct profile_file *ret)
{
	_cleanup_(page_release) struct page p = {0};
	_cleanup_rebuild_ struct rebuild r;
	struct error *err = rebuild_init(&r);

	if (!err && size > MOST_BYTES)
		err = rebuild_corrupt("it is too large");
	if (!err)
		err = parse(&p, bytes, size);
	if (!err)
		err = inflate_numbers(&p);
	if (!err)
		err = read_columns(&p);
	for (size_t i = 0; !err && i < p.sample_count; i++) {
		err = cancel_check(cancel);
		if (!err)
			err = add_sample(&p, &r, i);
	}
	if (!err)
		err = add_all_steps(&p, r.profile);
	if (!err)
		err = add_goroutines(&p, &r);
	if (!err)
		err = add_requests(&p, &r);
	if (!err)
		err = add_header(&p, r.profile);
	if (!err)
		err = add_sources(&p, r.profile);
	return err ? err : rebuild_finish(&r, ret);
}
