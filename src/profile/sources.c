#include "profile/sources.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "profile/source_files.h"

#define LINES_AROUND 20u      /* before and behind a line with time */
#define MOST_BYTES (2u << 20) /* of all fragments */
#define MOST_LINE 400u        /* bytes of a line; the rest is left out */
#define MOST_FILE (8u << 20)  /* bytes of a file that is read */
#define MOST_FILES 4000       /* that are looked for */

/* A line with time. */
struct hot_line {
	const struct source_line *line;
	uint64_t file_time; /* time of all lines of its file */
};

struct source_file {
	char *text;
	size_t size;
	const char **lines; /* the start of each line, and the end of the text */
	size_t count;
};

struct finder {
	struct profile *profile;
	const struct profile_symbols *symbols;
	struct source_folder folder;
	struct hot_line *hot; /* files with most time first, then by line */
	size_t count;
	bool is_full;
};

static void finder_release(struct finder *f)
{
	source_folder_close(&f->folder);
	free(f->hot);
}

static void source_file_release(struct source_file *f)
{
	free(f->text);
	free(f->lines);
}
#define _cleanup_source_file_ _cleanup_(source_file_release)

static int by_file_and_line(const void *a, const void *b)
{
	const struct hot_line *x = a, *y = b;

	if (x->file_time != y->file_time)
		return x->file_time < y->file_time ? 1 : -1;
	if (x->line->file != y->line->file)
		return x->line->file < y->line->file ? -1 : 1;
	return x->line->line < y->line->line ? -1 : x->line->line > y->line->line;
}

/* Adds each sample's time to the files of its stack. Idle time counts least. */
static struct error *must_check add_times(const struct finder *f, uint64_t *files)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	struct error *err = NULL;

	for (size_t i = 0; i < f->profile->count && !err; i++) {
		const struct profile_sample *s = &f->profile->samples[i];
		uint64_t busy = s->wall_ns > s->idle_ns ? s->wall_ns - s->idle_ns : 0;

		err = symbols_stack(f->symbols, s, &stack);
		for (size_t j = 0; j < stack.count && !err; j++) {
			const struct source_line *line =
				&f->symbols->source_lines[f->symbols->lines[stack.frames[j]]];

			files[line->file] += busy + s->cpu_ns + s->count;
		}
	}
	return err;
}

static struct error *must_check find_hot_lines(struct finder *f)
{
	const struct profile_symbols *s = f->symbols;
	_cleanup_free_ uint64_t *files = calloc(s->strings.count + 1, sizeof(*files));
	struct error *err;

	f->hot = calloc(s->source_line_count + 1, sizeof(*f->hot));
	if (!files || !f->hot)
		return &error_no_memory;
	err = add_times(f, files);
	for (size_t i = 0; i < s->source_line_count && !err; i++) {
		const struct source_line *line = &s->source_lines[i];

		if (line->line && *intern_get(&s->strings, line->file))
			f->hot[f->count++] = (struct hot_line){line, files[line->file]};
	}
	if (f->count)
		qsort(f->hot, f->count, sizeof(*f->hot), by_file_and_line);
	return err;
}

/* ---- a file ---- */

static bool read_text(int fd, struct source_file *f)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_size <= 0 || st.st_size > (off_t)MOST_FILE)
		return false;
	f->text = malloc(st.st_size + 1);
	while (f->text && f->size < (size_t)st.st_size) {
		ssize_t n = pread(fd, f->text + f->size, st.st_size - f->size, f->size);

		if (n <= 0)
			break;
		f->size += n;
	}
	if (f->text)
		f->text[f->size] = '\0';
	return f->text;
}

static bool split_lines(struct source_file *f)
{
	const char *at = f->text, *end = f->text + f->size;
	size_t most = 1;

	for (size_t i = 0; i < f->size; i++)
		most += f->text[i] == '\n';
	f->lines = calloc(most + 1, sizeof(*f->lines));
	if (!f->lines)
		return false;
	while (at < end) {
		const char *newline = memchr(at, '\n', end - at);

		f->lines[f->count++] = at;
		at = newline ? newline + 1 : end;
	}
	f->lines[f->count] = end;
	return true;
}

/* False: there is no such file, or it is too large. */
static bool read_file(struct finder *f, const char *name, struct source_file *ret)
{
	_cleanup_close_ int fd = source_open(&f->folder, name);

	return fd >= 0 && read_text(fd, ret) && split_lines(ret);
}

/* Line `number`, from 1, without its newline. */
static size_t line_text(const struct source_file *f, size_t number, const char **ret)
{
	const char *from = f->lines[number - 1], *to = f->lines[number];

	while (to > from && (to[-1] == '\n' || to[-1] == '\r'))
		to--;
	*ret = from;
	return to - from;
}

/* ---- whether it has the function ---- */

/* Whether a line declares a function or method of this name: "func name(", "func (t *T) name[". */
static bool declares(const char *line, size_t length, const char *name, size_t name_length)
{
	const char *end = line + length;

	for (const char *c = line + strlen("func "); c + name_length < end; c++)
		if (c[-1] == ' ' && !memcmp(c, name, name_length) &&
		    (c[name_length] == '(' || c[name_length] == '['))
			return true;
	return false;
}

/* The name without its package: for "a/b.(*T[...]).M.func1" it is "(*T[...]).M.func1". */
static const char *without_package(const char *function)
{
	size_t length = strcspn(function, "[(");
	const char *slash = memrchr(function, '/', length);
	const char *dot = strchr(slash ? slash : function, '.');

	return dot ? dot + 1 : function;
}

/* Whether this line declares one of the function's names. A closure or method has several: "(*T).M"
 * and "T.M" have M, "main.func1" has main. */
static bool declares_function(const char *line, size_t length, const char *function)
{
	const char *at = without_package(function);

	if (*at == '(' && strstr(at, ")."))
		at = strstr(at, ").") + 2;
	for (int i = 0; i < 2; i++) {
		size_t name_length = strcspn(at, ".[-");

		if (name_length && declares(line, length, at, name_length))
			return true;
		if (at[name_length] == '[')
			name_length += strcspn(at + name_length, "]") + 1;
		if (strlen(at) <= name_length || at[name_length] != '.')
			return false;
		at += name_length + 1;
	}
	return false;
}

static bool has_function(const struct finder *f, const struct source_file *file,
			 const struct source_line *line)
{
	const char *name = intern_get(&f->symbols->strings, line->function), *text;

	if (line->line > file->count || line->start_line > line->line)
		return false;
	if (line->start_line) {
		size_t length = line_text(file, line->start_line, &text);

		if (!memmem(text, length, "func", 4))
			return false;
	}
	for (size_t i = line->line; i > 0; i--) {
		size_t length = line_text(file, i, &text);

		if (length > 5 && !memcmp(text, "func ", 5))
			return declares_function(text, length, name);
	}
	return false;
}

/* ---- fragments ---- */

static struct error *must_check add_fragment(struct finder *f, const struct source_file *file,
					     const char *name, uint32_t from, uint32_t to)
{
	struct strbuf sb = STRBUF_INIT;
	const char *text;

	if (f->is_full)
		return NULL;
	for (uint32_t i = from; i <= to; i++) {
		size_t length = line_text(file, i, &text);

		strbuf_add(&sb, text, length < MOST_LINE ? length : MOST_LINE);
		strbuf_addc(&sb, '\n');
	}
	if (sb.failed) {
		strbuf_release(&sb);
		return &error_no_memory;
	}
	if (f->profile->sources.bytes + sb.length > MOST_BYTES) {
		f->is_full = true;
		strbuf_release(&sb);
		return NULL;
	}
	return source_fragments_add(&f->profile->sources, name, from, to - from + 1, sb.data,
				    sb.length)
		       ? NULL
		       : &error_no_memory;
}

/* Adds the lines of one file: those around each line with time, overlapping ones once. */
static struct error *must_check add_file(struct finder *f, const struct hot_line *hot, size_t count)
{
	_cleanup_source_file_ struct source_file file = {0};
	const char *name = intern_get(&f->symbols->strings, hot[0].line->file);
	uint32_t from = 0, to = 0;
	struct error *err = NULL;

	if (!read_file(f, name, &file))
		return NULL;
	for (size_t i = 0; i < count && !err; i++) {
		uint32_t line = hot[i].line->line, end;

		if (!has_function(f, &file, hot[i].line))
			continue;
		end = line + LINES_AROUND < file.count ? line + LINES_AROUND : file.count;
		if (from && line > to + LINES_AROUND + 1) {
			err = add_fragment(f, &file, name, from, to);
			from = 0;
		}
		from = from ? from : line > LINES_AROUND ? line - LINES_AROUND : 1;
		to = end;
	}
	return err || !from ? err : add_fragment(f, &file, name, from, to);
}

struct error *sources_find(struct profile *p, const struct profile_symbols *symbols,
			   const char *folder, size_t *ret_files)
{
	_cleanup_(finder_release) struct finder f = {p, symbols, .folder = {.path = folder}};
	struct error *err;
	size_t files = 0, looked_for = 0;

	source_fragments_release(&p->sources);
	err = find_hot_lines(&f);
	for (size_t i = 0, n; i < f.count && !err && looked_for++ < MOST_FILES; i += n) {
		size_t before = p->sources.count;

		for (n = 1; i + n < f.count && f.hot[i + n].line->file == f.hot[i].line->file;)
			n++;
		err = add_file(&f, &f.hot[i], n);
		files += p->sources.count > before;
	}
	if (!err)
		*ret_files = files;
	return err;
}
