#include "retained/number_array.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"

#define FIRST_ROOM 1024u
#define MOST_WRITTEN (1u << 30)
#define MOST_ROOM (LEAST_ASIDE / 8 / sizeof(uint32_t))
#define READ_ROOM (1u << 16)

/* ---- files ---- */

bool aside_write(int file, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	while (size) {
		ssize_t n = write(file, at, size < MOST_WRITTEN ? size : MOST_WRITTEN);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

bool aside_read(int file, void *bytes, size_t size, size_t from)
{
	uint8_t *at = bytes;

	while (size) {
		ssize_t n = pread(file, at, size < MOST_WRITTEN ? size : MOST_WRITTEN, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (!n)
			errno = EIO;
		if (n <= 0)
			return false;
		at += n;
		from += (size_t)n;
		size -= (size_t)n;
	}
	return true;
}

/* Not mapped: it could not be. */
static struct number_array map(int file, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);

	return at == MAP_FAILED ? (struct number_array){0}
				: (struct number_array){.items = at, .mapped = size};
}

/* ---- arrays ---- */

struct number_array number_array_of(uint32_t *items, size_t count)
{
	size_t size = (count + 1) * sizeof(*items);
	struct number_array filed = {0};
	const char *folder;
	int file;

	if (!items || size < LEAST_ASIDE)
		return (struct number_array){.items = items};
	file = door_temporary(&folder);
	if (file < 0)
		return (struct number_array){.items = items};
	if (aside_write(file, items, size))
		filed = map(file, size);
	close(file);
	if (!filed.mapped)
		return (struct number_array){.items = items};
	free(items);
	return filed;
}

void number_array_release(struct number_array *a)
{
	if (a->mapped)
		munmap((void *)a->items, a->mapped);
	else
		free((void *)a->items);
	*a = (struct number_array){0};
}

void number_array_forget(const struct number_array *a)
{
	if (a->mapped)
		madvise((void *)a->items, a->mapped, MADV_DONTNEED);
}

/* ---- writers ---- */

static bool grow(struct number_writer *w)
{
	size_t room = w->room ? w->room * 2 : FIRST_ROOM;
	uint32_t *items = realloc(w->items, room * sizeof(*items));

	w->failed = !items;
	if (w->failed)
		return false;
	w->items = items;
	w->room = room;
	return true;
}

/* No file any more: all that is in it comes back into memory. */
static bool take_back(struct number_writer *w)
{
	size_t count = w->written + w->count, room = count + MOST_ROOM;
	uint32_t *items = malloc(room * sizeof(*items));

	w->failed = !items || !aside_read(w->file - 1, items, w->written * sizeof(*items), 0);
	if (w->failed) {
		free(items);
		return false;
	}
	for (size_t i = 0; i < w->count; i++)
		items[w->written + i] = w->items[i];
	free(w->items);
	close(w->file - 1);
	*w = (struct number_writer){.items = items,
				    .count = count,
				    .room = room,
				    .has_no_file = true};
	return true;
}

static bool flush(struct number_writer *w)
{
	const char *folder;

	if (!w->file)
		w->file = door_temporary(&folder) + 1;
	if (w->file <= 0) {
		w->file = 0;
		w->has_no_file = true;
		return false;
	}
	if (!aside_write(w->file - 1, w->items, w->count * sizeof(*w->items)))
		return false;
	w->written += w->count;
	w->count = 0;
	return true;
}

void number_writer_make_room(struct number_writer *w)
{
	if (w->failed || (w->room >= MOST_ROOM && !w->has_no_file && flush(w)))
		return;
	if (w->file)
		take_back(w);
	else
		grow(w);
}

struct error *number_writer_finish(struct number_writer *w, struct number_array *ret)
{
	*ret = (struct number_array){0};
	if (!w->failed && w->file && flush(w))
		*ret = map(w->file - 1, w->written * sizeof(*w->items));
	if (!ret->mapped && !w->failed && w->file)
		take_back(w);
	if (!ret->mapped && !w->failed && !w->items)
		grow(w);
	if (w->failed)
		return &error_no_memory;
	if (!ret->mapped)
		ret->items = take_ptr(w->items);
	number_writer_release(w);
	return NULL;
}

void number_writer_release(struct number_writer *w)
{
	free(w->items);
	if (w->file)
		close(w->file - 1);
	*w = (struct number_writer){0};
}

/* ---- readers ---- */

bool number_reader_fill(struct number_reader *r, const struct number_writer *w)
{
	size_t left = w->written - r->next, count = left < READ_ROOM ? left : READ_ROOM;

	if (!r->items)
		r->items = malloc(READ_ROOM * sizeof(*r->items));
	if (!r->items || !aside_read(w->file - 1, r->items, count * sizeof(*r->items),
				     r->next * sizeof(*r->items)))
		return false;
	r->first = r->next;
	r->end = r->next + count;
	return true;
}

void number_reader_release(struct number_reader *r)
{
	free(r->items);
	*r = (struct number_reader){0};
}
