#include "dump/traceback.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/printable.h"

/* A pc has as many frames as calls were inlined there. */
#define MAX_INLINED 64

/* From Go 1.21 on, the runtime prints this many frames at either end. Before, it printed this many
 * physical frames, shown or not. */
enum { PRINTED_INNER = 50, PRINTED_OUTER = 50, PRINTED_OLD = 100 };

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* isExportedRuntime: up to Go 1.22 functions alone, then exported methods of exported types too. */
static bool is_exported_runtime(const char *function, int minor)
{
	const char *name = function + strlen("runtime."), *dot = strrchr(name, '.');

	if (!dot || minor < 23)
		return is_upper(name[0]);
	if (!strncmp(name, "(*", 2) && dot > name && dot[-1] == ')')
		name += 2;
	return is_upper(dot[1]) && is_upper(name[0]);
}

static bool is_shown(const struct go_frame *frame, const struct go_frame *callee, bool first,
		     int minor)
{
	const char *name = frame->function;

	if (go_frame_hidden(frame, callee))
		return false;
	if (!strcmp(name, "runtime.runFinalizers") || !strcmp(name, "runtime.runCleanups"))
		return true;
	if (!strcmp(name, "runtime.gopanic") && !first)
		return true;
	if (!strchr(name, '.'))
		return false;
	return strncmp(name, "runtime.", 8) || is_exported_runtime(name, minor);
}

static bool add_frames(const struct image *img, struct stack stack, size_t place, bool all,
		       struct traceback *tb, struct go_frame *callee)
{
	uint64_t word = stack.pcs[place];
	struct go_frame frames[MAX_INLINED];
	size_t n = pclntab_frames(&img->functions, word, frames, MAX_INLINED);

	for (size_t i = 0; i < n; i++) {
		const struct go_frame *inner = callee->function ? callee : NULL;
		bool shown = all || is_shown(&frames[i], inner, !tb->count, img->info.minor);

		*callee = frames[i];
		if (!shown)
			continue;
		if (!array_reserve(&tb->frames, &tb->capacity, tb->count + 1))
			return false;
		tb->frames[tb->count++] =
			(struct shown_frame){frames[i], stack_pc_address(word), place};
	}
	return true;
}

/* Collects all frames of at most `limit` words. */
static struct error *collect(const struct image *img, struct stack stack, size_t limit, bool all,
			     struct traceback *tb)
{
	struct go_frame callee = {0};

	tb->count = 0;
	tb->elided = 0;
	for (size_t i = 0; i < stack.count && i < limit; i++) {
		if (stack.pcs[i] == STACK_PC_TRUNCATED) {
			tb->head = tb->count;
			tb->elided = -1;
		} else if (!stack_pc_is_pseudo(stack.pcs[i]) &&
			   !add_frames(img, stack, i, all, tb, &callee)) {
			return &error_no_memory;
		}
	}
	return NULL;
}

static void shorten(struct traceback *tb)
{
	size_t over;

	if (tb->elided || tb->count <= PRINTED_INNER + PRINTED_OUTER)
		return;
	over = tb->count - PRINTED_INNER - PRINTED_OUTER;
	memmove(tb->frames + PRINTED_INNER, tb->frames + PRINTED_INNER + over,
		PRINTED_OUTER * sizeof(*tb->frames));
	tb->count = PRINTED_INNER + PRINTED_OUTER;
	tb->head = PRINTED_INNER;
	tb->elided = over;
}

struct error *traceback_of(const struct image *img, struct stack stack, bool all,
			   enum traceback_length length, struct traceback *ret)
{
	bool old = length == TRACEBACK_PRINTED && img->info.minor < 21;
	size_t limit = old ? PRINTED_OLD : SIZE_MAX;
	struct error *err = collect(img, stack, limit, all, ret);

	/* If there is nothing to show, the whole stack is shown. */
	if (!err && !ret->count)
		err = collect(img, stack, limit, true, ret);
	if (err)
		return err;
	if (old && ret->count >= PRINTED_OLD && stack.count > PRINTED_OLD) {
		ret->head = ret->count;
		ret->elided = -1;
	} else if (length == TRACEBACK_PRINTED && !old) {
		shorten(ret);
	}
	return NULL;
}

void traceback_release(struct traceback *tb)
{
	free(tb->frames);
	*tb = (struct traceback){0};
}

static void add_place(struct strbuf *sb, const struct shown_frame *f)
{
	strbuf_addc(sb, '\t');
	printable_adds(sb, f->frame.file);
	strbuf_addc(sb, ':');
	strbuf_addu(sb, f->frame.line);
	if (!f->frame.inlined && f->pc > f->frame.entry) {
		strbuf_adds(sb, " +0x");
		strbuf_addx(sb, f->pc - f->frame.entry);
	}
	strbuf_addc(sb, '\n');
}

const struct frame_values *traceback_values(const struct goroutine_values *values,
					    const struct shown_frame *f)
{
	return values && f->place < values->count ? &values->frames[f->place] : NULL;
}

/* Names of one function: in one of them type arguments may be shortened to [...]. */
static bool is_same_function(const char *a, const char *b)
{
	const char *a_open = strchr(a, '['), *b_open = strchr(b, '[');

	if (!a_open || !b_open)
		return !strcmp(a, b);
	return a_open - a == b_open - b && !strncmp(a, b, a_open - a) &&
	       !strcmp(strrchr(a, ']') ? strrchr(a, ']') : "",
		       strrchr(b, ']') ? strrchr(b, ']') : "");
}

static bool is_local_of(const struct local_value *l, const struct shown_frame *f)
{
	if (!f->frame.inlined != !l->inlined ||
	    (l->inlined && !is_same_function(l->inlined, f->frame.function)))
		return false;
	/* Padding in a loop has line 1, whatever the function's lines are. */
	return l->is_argument || l->declared <= f->frame.line ||
	       f->frame.line < f->frame.start_line;
}

const struct local_value *traceback_local(const struct frame_values *values,
					  const struct shown_frame *f, size_t *i)
{
	while (values && *i < values->local_count) {
		const struct local_value *l = &values->locals[(*i)++];

		if (is_local_of(l, f))
			return l;
	}
	return NULL;
}

static void add_locals(struct strbuf *sb, const struct shown_frame *f,
		       const struct frame_values *values)
{
	const struct local_value *l;
	size_t i = 0;

	while ((l = traceback_local(values, f, &i))) {
		strbuf_adds(sb, l->is_argument ? "\t\targ " : "\t\tvar ");
		printable_adds(sb, l->name);
		strbuf_addc(sb, ' ');
		printable_adds(sb, l->type);
		strbuf_addf(sb, " = %s\n", l->text);
	}
}

static void add_frame(struct strbuf *sb, const struct shown_frame *f,
		      const struct goroutine_values *all)
{
	const char *name = f->frame.function;
	const struct frame_values *values = traceback_values(all, f);
	bool known = values && values->arguments && !f->frame.inlined;

	printable_adds(sb, strcmp(name, "runtime.gopanic") ? name : "panic");
	strbuf_addf(sb, "(%s)\n", known ? values->arguments : "...");
	add_place(sb, f);
	add_locals(sb, f, values);
}

static void add_elided(struct strbuf *sb, const struct traceback *tb)
{
	if (tb->elided > 0)
		strbuf_addf(sb, "...%ld frames elided...\n", tb->elided);
	else
		strbuf_adds(sb, "...additional frames elided...\n");
}

void traceback_add(struct strbuf *sb, const struct traceback *tb,
		   const struct goroutine_values *values)
{
	for (size_t i = 0; i < tb->count; i++) {
		if (tb->elided && i == tb->head)
			add_elided(sb, tb);
		add_frame(sb, &tb->frames[i], values);
	}
	if (tb->elided && tb->head == tb->count)
		add_elided(sb, tb);
}

void traceback_add_creator_place(struct strbuf *sb, const struct shown_frame *f)
{
	strbuf_addc(sb, '\t');
	printable_adds(sb, f->frame.file);
	strbuf_addf(sb, ":%d", f->frame.line);
	if (f->pc > f->frame.entry)
		strbuf_addf(sb, " +0x%lx", f->pc - f->frame.entry);
	strbuf_addc(sb, '\n');
}

bool traceback_creator(const struct image *img, const struct dump_goroutine *g, bool all,
		       struct shown_frame *ret)
{
	struct go_frame frames[MAX_INLINED];
	struct go_func f;
	size_t n;

	if (g->id == 1 || !pclntab_find(&img->functions, g->go_pc, &f))
		return false;
	n = pclntab_frames(&img->functions, g->go_pc, frames, MAX_INLINED);
	if (!n)
		return false;
	/* The runtime prints the function that the code belongs to, with the line of the inlined
	 * call. */
	*ret = (struct shown_frame){frames[n - 1], g->go_pc, 0};
	ret->frame.file = frames[0].file;
	ret->frame.line = frames[0].line;
	return all || is_shown(&ret->frame, NULL, false, img->info.minor);
}
