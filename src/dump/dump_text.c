/* The runtime's own traceback text: runtime/traceback.go (goroutineheader, traceback1). */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "dump/connections.h"
#include "dump/raw_dump.h"
#include "dump/traceback.h"

/* A range of the text. */
struct place {
	size_t start;
	size_t length;
};

/* The text of each stack and of each creator, made once. */
struct texts {
	const struct dump *dump;
	bool all;
	bool raw;
	bool values;
	struct strbuf text;  /* all texts, concatenated */
	struct map stacks;   /* stack -> its index in `places` + 1; 0: not made yet */
	struct map creators; /* go_pc -> likewise: the function, NUL, the file and line */
	struct place *places;
	size_t count;
	size_t capacity;
};

static bool needs_quotes(const char *s)
{
	for (; *s; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		      (*s >= '0' && *s <= '9') || *s == '.' || *s == '/' || *s == '_'))
			return true;
	return false;
}

/* runtime/print.go:printquoted. */
static void add_quoted(struct strbuf *sb, const char *s)
{
	uint32_t c;
	size_t n;

	strbuf_addc(sb, '"');
	for (; *s; s += n ? n : 1) {
		n = utf8_decode(s, strlen(s), &c);
		if (!n)
			strbuf_addf(sb, "\\x%02x", (unsigned char)*s);
		else if (c == '\n' || c == '\r' || c == '\t')
			strbuf_addf(sb, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
		else if (c == '\\' || c == '"')
			strbuf_addf(sb, "\\%c", c);
		else if (c >= ' ' && c <= '~')
			strbuf_addc(sb, c);
		else
			strbuf_addf(sb,
				    c < 127       ? "\\x%02x"
				    : c < 0x10000 ? "\\u%04x"
						  : "\\U%08x",
				    c);
	}
	strbuf_addc(sb, '"');
}

static void add_word(struct strbuf *sb, const char *s)
{
	if (needs_quotes(s))
		add_quoted(sb, s);
	else
		strbuf_adds(sb, s);
}

static void add_labels(struct strbuf *sb, const struct dump *dump, uint32_t id)
{
	const struct label_sets *sets = goroutine_set_labels(dump->set);
	struct label_set set = label_sets_get(sets, id);

	for (uint32_t i = 0; i < set.count; i++) {
		strbuf_adds(sb, i ? ", " : " {");
		add_word(sb, intern_get(&sets->strings, set.labels[i].key));
		strbuf_adds(sb, ": ");
		add_word(sb, intern_get(&sets->strings, set.labels[i].value));
	}
	if (set.count)
		strbuf_addc(sb, '}');
}

/* runtime2.go:isIdleInSynctest, for reasons whose names do not say it. */
static bool is_durable(const char *reason)
{
	static const char *const names[] = {
		"chan receive (nil chan)",
		"chan send (nil chan)",
		"select (no cases)",
		"sleep",
		"sync.Cond.Wait",
		"coroutine",
		"synctest.Run",
		"synctest.Wait",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(reason, names[i]))
			return true;
	return false;
}

static uint64_t waited_minutes(const struct dump *dump, const struct dump_goroutine *g)
{
	bool waits = g->status == G_WAITING || g->status == G_SYSCALL;

	if (!waits || !g->wait_since || g->wait_since > dump->taken)
		return 0;
	return (dump->taken - g->wait_since) / 60000000000ull;
}

/* "chan receive, 3 minutes, locked to thread" */
static void add_state(struct strbuf *sb, const struct dump *dump, const struct dump_goroutine *g)
{
	const char *state = dump_state(dump, g);

	printable_adds(sb, state);
	if (g->status == G_LEAKED)
		strbuf_adds(sb, " (leaked)");
	if (g->bubble && dump->minor >= 25 && g->status == G_WAITING && is_durable(state))
		strbuf_adds(sb, " (durable)");
	if (waited_minutes(dump, g))
		strbuf_addf(sb, ", %lu minutes", waited_minutes(dump, g));
	if (g->locked)
		strbuf_adds(sb, ", locked to thread");
	if (g->bubble && dump->minor >= 25)
		strbuf_addf(sb, ", synctest bubble %lu", g->bubble);
	if (g->connection)
		connection_add(sb, g->connection);
}

/* Its values, where known, are those of the goroutine alone. */
static struct error *make_stack(struct texts *texts, struct stack stack,
				const struct goroutine_values *values, struct strbuf *sb)
{
	_cleanup_traceback_ struct traceback tb = {0};
	struct error *err;

	if (texts->raw) {
		raw_add_stack(sb, stack);
		return NULL;
	}
	err = traceback_of(texts->dump->img, stack, texts->all, TRACEBACK_PRINTED, &tb);
	if (!err)
		traceback_add(sb, &tb, values);
	return err;
}

/* Adds a place: the text from `start` on. */
static struct error *keep_place(struct texts *texts, size_t start, uint64_t *ret)
{
	if (texts->text.failed ||
	    !array_reserve(&texts->places, &texts->capacity, texts->count + 1))
		return &error_no_memory;
	texts->places[texts->count++] = (struct place){start, texts->text.length - start};
	*ret = texts->count;
	return NULL;
}

static const char *place_text(const struct texts *texts, uint64_t place)
{
	return texts->text.data + texts->places[place - 1].start;
}

static const char *no_stack(const struct dump *dump, const struct dump_goroutine *g)
{
	if (!g->unknown)
		return "\tgoroutine running on other thread; stack unavailable\n";
	if (dump->core)
		return "\tgoroutine's stack is missing from the core file or corrupt; stack "
		       "unavailable\n";
	return "\tgoroutine's stack changed during every attempt to read it; stack unavailable\n";
}

static struct error *add_stack(struct texts *texts, struct strbuf *sb,
			       const struct dump_goroutine *g)
{
	struct stack stack = stacks_get(goroutine_set_stacks(texts->dump->set), g->stack);
	size_t start = texts->text.length;
	struct error *err = NULL;
	uint64_t *made;

	if (!dump_has_stack(g)) {
		strbuf_adds(sb, no_stack(texts->dump, g));
		return NULL;
	}
	if (g->values && texts->values)
		return make_stack(texts, stack, g->values, sb);
	made = map_at(&texts->stacks, g->stack);
	if (!made)
		return &error_no_memory;
	if (!*made) {
		err = make_stack(texts, stack, NULL, &texts->text);
		if (!err)
			err = keep_place(texts, start, made);
	}
	if (!err)
		strbuf_add(sb, place_text(texts, *made), texts->places[*made - 1].length);
	return err;
}

static void make_creator(struct texts *texts, const struct dump_goroutine *g)
{
	struct strbuf *sb = &texts->text;
	bool shown = !texts->raw;
	struct shown_frame f;

	if (texts->raw)
		raw_add_creator(sb, g);
	else if (traceback_creator(texts->dump->img, g, texts->all, &f))
		printable_adds(sb, f.frame.function);
	else
		shown = false;
	strbuf_add(sb, "", 1);
	if (shown)
		traceback_add_creator_place(sb, &f);
}

static struct error *add_creator(struct texts *texts, struct strbuf *sb,
				 const struct dump_goroutine *g, bool with_parent)
{
	size_t start = texts->text.length;
	uint64_t *made = map_at(&texts->creators, g->id == 1 ? 0 : g->go_pc & ~STACK_PC_EXACT);
	struct error *err = NULL;
	const char *name;
	size_t length;

	if (!made)
		return &error_no_memory;
	if (!*made) {
		make_creator(texts, g);
		err = keep_place(texts, start, made);
	}
	if (err)
		return err;
	name = place_text(texts, *made);
	length = strlen(name);
	if (!length)
		return NULL;
	strbuf_adds(sb, "created by ");
	strbuf_add(sb, name, length);
	if (g->parent && with_parent) {
		strbuf_adds(sb, " in goroutine ");
		strbuf_addu(sb, g->parent);
	}
	strbuf_addc(sb, '\n');
	strbuf_add(sb, name + length + 1, texts->places[*made - 1].length - length - 1);
	return NULL;
}

static void texts_release(struct texts *texts)
{
	strbuf_release(&texts->text);
	map_release(&texts->stacks);
	map_release(&texts->creators);
	free(texts->places);
}

#define _cleanup_texts_ __attribute__((cleanup(texts_release)))

static struct error *flush(struct strbuf *sb, FILE *out)
{
	if (sb->failed)
		return &error_no_memory;
	fwrite(sb->data, 1, sb->length, out);
	strbuf_reset(sb);
	return NULL;
}

static struct error *write_goroutines(struct texts *texts, FILE *out)
{
	const struct dump *dump = texts->dump;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < dump->count; i++) {
		const struct dump_goroutine *g = &dump->items[i];

		strbuf_adds(&sb, i ? "\ngoroutine " : "goroutine ");
		strbuf_addu(&sb, g->id);
		strbuf_adds(&sb, " [");
		add_state(&sb, dump, g);
		strbuf_addc(&sb, ']');
		add_labels(&sb, dump, g->labels);
		strbuf_adds(&sb, ":\n");
		err = add_stack(texts, &sb, g);
		if (!err)
			err = add_creator(texts, &sb, g, true);
		if (!err && sb.length > 256 << 10)
			err = flush(&sb, out);
	}
	return err ? err : flush(&sb, out);
}

/* In this order, goroutines of one group are adjacent. */
static int compare_groups(const void *a, const void *b)
{
	const struct dump_goroutine *x = *(const struct dump_goroutine *const *)a;
	const struct dump_goroutine *y = *(const struct dump_goroutine *const *)b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->status != y->status)
		return x->status < y->status ? -1 : 1;
	if (x->wait_reason != y->wait_reason)
		return x->wait_reason < y->wait_reason ? -1 : 1;
	if (x->go_pc != y->go_pc)
		return x->go_pc < y->go_pc ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static bool same_group(const struct dump_goroutine *x, const struct dump_goroutine *y)
{
	return x->stack == y->stack && x->status == y->status && x->wait_reason == y->wait_reason &&
	       x->go_pc == y->go_pc;
}

struct group {
	size_t first; /* in the sorted order */
	size_t count;
};

static int compare_sizes(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

/* "3 goroutines [select, 1 to 4 minutes]: 7, 9, 12" */
static void add_group_header(struct strbuf *sb, const struct dump *dump,
			     const struct dump_goroutine **who, size_t count)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t minutes = waited_minutes(dump, who[i]);

		least = minutes < least ? minutes : least;
		most = minutes > most ? minutes : most;
	}
	strbuf_addf(sb, "%zu goroutine%s [", count, count == 1 ? "" : "s");
	printable_adds(sb, dump_state(dump, who[0]));
	if (most && least == most)
		strbuf_addf(sb, ", %lu minutes", most);
	else if (most)
		strbuf_addf(sb, ", %lu to %lu minutes", least, most);
	strbuf_adds(sb, "]:");
	for (size_t i = 0; i < count && i < 10; i++)
		strbuf_addf(sb, "%s %lu", i ? "," : "", who[i]->id);
	strbuf_adds(sb, count > 10 ? ", ...\n" : "\n");
}

static size_t find_groups(const struct dump_goroutine **who, size_t count, struct group *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		if (!i || !same_group(who[i - 1], who[i]))
			ret[n++] = (struct group){i, 0};
		ret[n - 1].count++;
	}
	return n;
}

static struct error *write_groups(struct texts *texts, FILE *out)
{
	const struct dump *dump = texts->dump;
	_cleanup_free_ const struct dump_goroutine **who = calloc(dump->count + 1, sizeof(*who));
	_cleanup_free_ struct group *groups = calloc(dump->count + 1, sizeof(*groups));
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct error *err = NULL;
	size_t count;

	if (!who || !groups)
		return &error_no_memory;
	for (size_t i = 0; i < dump->count; i++)
		who[i] = &dump->items[i];
	qsort(who, dump->count, sizeof(*who), compare_groups);
	count = find_groups(who, dump->count, groups);
	qsort(groups, count, sizeof(*groups), compare_sizes);
	for (size_t i = 0; !err && i < count; i++) {
		strbuf_adds(&sb, i ? "\n" : "");
		add_group_header(&sb, dump, who + groups[i].first, groups[i].count);
		err = add_stack(texts, &sb, who[groups[i].first]);
		if (!err)
			err = add_creator(texts, &sb, who[groups[i].first], false);
		if (!err)
			err = flush(&sb, out);
	}
	return err;
}

struct error *dump_write_text(const struct dump *dump, bool all, FILE *out)
{
	_cleanup_texts_ struct texts texts = {.dump = dump,
					      .all = all,
					      .values = true,
					      .text = STRBUF_INIT};

	unwind_write_mark(dump_method(dump), out);
	return write_goroutines(&texts, out);
}

struct error *dump_write_groups(const struct dump *dump, bool all, FILE *out)
{
	_cleanup_texts_ struct texts texts = {.dump = dump, .all = all, .text = STRBUF_INIT};

	unwind_write_mark(dump_method(dump), out);
	return write_groups(&texts, out);
}

struct error *dump_write_raw(const struct dump *dump, const struct dump_raw *raw, bool groups,
			     FILE *out)
{
	_cleanup_texts_ struct texts texts = {.dump = dump, .raw = true, .text = STRBUF_INIT};

	raw_write_head(raw, out);
	unwind_write_mark(dump_method(dump), out);
	return groups ? write_groups(&texts, out) : write_goroutines(&texts, out);
}
