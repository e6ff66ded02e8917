#include "dump/panic.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

#define MAX_PANICS 16
#define MAX_TEXT 8192
#define MAX_MACHINES 100000

/* Source: runtime/runtime2.go (g, _panic), internal/abi/type.go (Type, Kind), Go 1.17 to 1.27. */
#define G_PANIC 32
#define TYPE_KIND 23
#define KIND_MASK 31

enum kind {
	KIND_BOOL = 1,
	KIND_INT = 2,
	KIND_INT8 = 3,
	KIND_INT16 = 4,
	KIND_INT32 = 5,
	KIND_INT64 = 6,
	KIND_UINT = 7,
	KIND_UINT8 = 8,
	KIND_UINT16 = 9,
	KIND_UINT32 = 10,
	KIND_UINT64 = 11,
	KIND_UINTPTR = 12,
	KIND_STRING = 24,
};

struct go_panic {
	uint64_t type; /* of its argument */
	uint64_t data;
	uint64_t link; /* the panic before it */
};

static bool read_word(struct target *t, uint64_t address, uint64_t *ret)
{
	return !error_dropped(target_read_u64(t, address, ret));
}

/* The goroutine that a thread runs; 0 if it cannot be found. */
static uint64_t goroutine_of(struct target *t, const struct golayout *lay, pid_t thread)
{
	uint64_t m, procid, g;

	if (!read_word(t, lay->v.allm, &m))
		return 0;
	for (int i = 0; m && i < MAX_MACHINES; i++) {
		if (!read_word(t, m_at_procid(&lay->n, m), &procid))
			return 0;
		if (procid == (uint64_t)thread)
			return read_word(t, m_at_curg(&lay->n, m), &g) ? g : 0;
		if (!read_word(t, m_at_alllink(&lay->n, m), &m))
			return 0;
	}
	return 0;
}

static bool read_panic(struct target *t, int minor, uint64_t address, struct go_panic *ret)
{
	/* Up to Go 1.25 a pointer to the deferred call's arguments comes first. */
	uint64_t arg = address + (minor < 26 ? 8 : 0);

	return !error_dropped(target_read(t, arg, ret, sizeof(*ret)));
}

static void add_string(struct strbuf *sb, struct target *t, uint64_t address)
{
	uint64_t header[2];
	char text[MAX_TEXT];
	size_t n;

	if (error_dropped(target_read(t, address, header, sizeof(header))))
		return;
	n = header[1] < sizeof(text) ? header[1] : sizeof(text);
	if (!error_dropped(target_read(t, header[0], text, n)))
		strbuf_add(sb, text, strnlen(text, n));
}

static void add_number(struct strbuf *sb, struct target *t, uint64_t address, enum kind kind)
{
	static const uint8_t sizes[] = {8, 1, 2, 4, 8};
	bool is_signed = kind < KIND_UINT;
	size_t size = kind == KIND_UINTPTR ? 8 : sizes[kind - (is_signed ? KIND_INT : KIND_UINT)];
	uint64_t value = 0;

	if (error_dropped(target_read(t, address, &value, size)))
		return;
	if (is_signed)
		strbuf_addf(sb, "%ld", (int64_t)(value << (64 - 8 * size)) >> (64 - 8 * size));
	else
		strbuf_addf(sb, "%lu", value);
}

/* As runtime/error.go:printpanicval. */
static void add_value(struct strbuf *sb, struct target *t, const struct go_panic *p)
{
	uint8_t kind, truth = 0;

	if (!p->type || error_dropped(target_read(t, p->type + TYPE_KIND, &kind, 1)))
		return;
	kind &= KIND_MASK;
	if (kind == KIND_STRING)
		add_string(sb, t, p->data);
	else if (kind >= KIND_INT && kind <= KIND_UINTPTR)
		add_number(sb, t, p->data, kind);
	else if (kind == KIND_BOOL && !error_dropped(target_read(t, p->data, &truth, 1)))
		strbuf_adds(sb, truth ? "true" : "false");
}

/* The panics of a goroutine, the last one first. */
static size_t read_panics(struct target *t, const struct golayout *lay, uint64_t g,
			  struct go_panic *ret)
{
	uint64_t address;
	size_t n = 0;

	if (!g || !read_word(t, g + G_PANIC, &address))
		return 0;
	while (address && n < MAX_PANICS && read_panic(t, lay->minor, address, &ret[n]))
		address = ret[n++].link;
	return n;
}

struct error *panic_read(struct target *t, const struct golayout *lay, struct dump *dump)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct go_panic panics[MAX_PANICS];
	size_t n = 0, before;

	if (dump->core->signal > 0)
		n = read_panics(t, lay, goroutine_of(t, lay, dump->core->thread), panics);
	while (n) {
		before = sb.length;
		if (before)
			strbuf_adds(&sb, "; then panic: ");
		n--;
		add_value(&sb, t, &panics[n]);
		if (before && sb.length == before + strlen("; then panic: "))
			strbuf_adds(&sb, "(a value that is not text)");
	}
	if (sb.failed)
		return &error_no_memory;
	if (!sb.length)
		return NULL;
	dump->panic = strdup(sb.data);
	return dump->panic ? NULL : &error_no_memory;
}
