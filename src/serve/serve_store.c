#include "serve/serve_store.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct serve_item {
	struct serve_stored when;
	uint64_t at; /* bytes that were written before it */
	uint64_t size;
};

struct serve_store {
	uint64_t written; /* bytes */
	uint64_t count;   /* profiles, over all time */
	struct serve_item items[SERVE_STORE_PROFILES];
	char bytes[SERVE_STORE_BYTES]; /* a ring */
};

int serve_store_create(void)
{
	int fd = memfd_create("gospect-hour", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	/* Nobody can make it shorter: that would end who reads it. */
	if (!ftruncate(fd, sizeof(struct serve_store)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	close(fd);
	return -1;
}

struct serve_store *serve_store_map(int fd)
{
	struct serve_store *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return s == MAP_FAILED ? NULL : s;
}

void serve_store_unmap(struct serve_store *s)
{
	if (s)
		munmap(s, sizeof(*s));
}

void serve_store_add(struct serve_store *s, const struct serve_stored *when,
		     const struct strbuf *profile)
{
	size_t size = profile->length, at = s->written % SERVE_STORE_BYTES;
	size_t first = size < SERVE_STORE_BYTES - at ? size : SERVE_STORE_BYTES - at;

	if (!size || size > SERVE_STORE_BYTES || profile->failed)
		return;
	memcpy(s->bytes + at, profile->data, first);
	memcpy(s->bytes, profile->data + first, size - first);
	s->items[s->count % SERVE_STORE_PROFILES] = (struct serve_item){*when, s->written, size};
	s->written += size;
	s->count++;
}

size_t serve_store_count(const struct serve_store *s)
{
	uint64_t count = *(const volatile uint64_t *)&s->count;

	return count < SERVE_STORE_PROFILES ? count : SERVE_STORE_PROFILES;
}

/* A copy of the i-th, the oldest first. */
static bool item_at(const struct serve_store *s, size_t i, struct serve_item *ret)
{
	uint64_t count = *(const volatile uint64_t *)&s->count;
	uint64_t written = *(const volatile uint64_t *)&s->written;
	uint64_t first = count < SERVE_STORE_PROFILES ? 0 : count;

	*ret = s->items[(first + i) % SERVE_STORE_PROFILES];
	return isfinite(ret->when.begin) && isfinite(ret->when.end) && ret->size &&
	       ret->size <= SERVE_STORE_BYTES && ret->at <= written &&
	       written - ret->at >= ret->size && written - ret->at <= SERVE_STORE_BYTES;
}

bool serve_store_when(const struct serve_store *s, size_t i, struct serve_stored *ret)
{
	struct serve_item item;
	bool is_there = item_at(s, i, &item);

	*ret = item.when;
	return is_there;
}

bool serve_store_get(const struct serve_store *s, size_t i, struct strbuf *ret)
{
	struct serve_item item;
	size_t at, first;

	if (!item_at(s, i, &item))
		return false;
	at = item.at % SERVE_STORE_BYTES;
	first = item.size < SERVE_STORE_BYTES - at ? item.size : SERVE_STORE_BYTES - at;
	strbuf_add(ret, s->bytes + at, first);
	strbuf_add(ret, s->bytes, item.size - first);
	return !ret->failed;
}
