/* A function table: the first bytes say its format and how long its parts are, the parts follow. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fuzz.h"
#include "image/pclntab.h"
#include "tests/made_functions.h"

#define PARTS 7
#define MAX_FRAMES 64
#define MAX_LOOKUPS 64

struct header {
	uint8_t format;
	uint8_t quantum;
	uint8_t wrapper_id;
	uint8_t unused;
	uint32_t count;
	uint64_t text;
	uint64_t etext;
	uint64_t funcs_address;
	uint64_t gofunc_base;
	uint32_t sizes[PARTS];
	uint32_t step; /* between the pcs that are looked up */
};

static void parts_of(struct pclntab *tab, struct bytes *ret[PARTS])
{
	struct bytes *parts[PARTS] = {&tab->ftab,  &tab->funcs, &tab->names, &tab->cutab,
				      &tab->files, &tab->pctab, &tab->gofunc};

	memcpy(ret, parts, sizeof(parts));
}

/* Each part is a block of its own, so that reading past its end is seen. */
static void take_parts(struct pclntab *tab, const struct header *h, struct cursor *c)
{
	struct bytes *parts[PARTS];

	parts_of(tab, parts);
	for (size_t i = 0; i < PARTS; i++) {
		size_t left = c->end - c->at, size = h->sizes[i] < left ? h->sizes[i] : left;
		uint8_t *copy = malloc(size);

		fuzz_require(copy);
		memcpy(copy, cursor_bytes(c, size), size);
		*parts[i] = (struct bytes){copy, size};
	}
}

/* As image/functions.c does. */
static void limit_count(struct pclntab *tab)
{
	size_t entries = tab->ftab.size / (tab->format == PCLNTAB_GO116 ? 16 : 8);

	if (tab->count >= entries)
		tab->count = entries ? entries - 1 : 0;
}

static void release_parts(struct pclntab *tab)
{
	struct bytes *parts[PARTS];

	parts_of(tab, parts);
	for (size_t i = 0; i < PARTS; i++)
		free((void *)parts[i]->data);
	intern_release(tab->short_names);
}

/* Everything that a frame points to is read. */
static size_t weigh(const struct go_frame *frames, size_t count)
{
	size_t weight = 0;

	fuzz_require(count <= MAX_FRAMES);
	for (size_t i = 0; i < count; i++) {
		weight += strlen(frames[i].function) + strlen(frames[i].file) + frames[i].line;
		weight += go_frame_hidden(&frames[i], i ? &frames[i - 1] : NULL);
		fuzz_require(frames[i].line >= 0 && frames[i].start_line >= 0);
	}
	return weight;
}

static void look_up(const struct pclntab *tab, uint64_t pc)
{
	struct go_frame frames[MAX_FRAMES];
	struct go_func f;
	size_t count;

	count = pclntab_frames(tab, pc, frames, MAX_FRAMES);
	weigh(frames, count);
	fuzz_accepted += count > 1;
	weigh(frames, pclntab_frames(tab, pc | STACK_PC_EXACT, frames, 1));
	if (!pclntab_find(tab, pc, &f))
		return;
	fuzz_require(f.entry <= pc && pc < f.end);
	fuzz_require(pclntab_sp_delta(&f, pc) >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct intern short_names = {0};
	struct cursor c = cursor_of(data, size, "input");
	struct go_func f;
	struct header h;
	struct pclntab tab;

	if (size < sizeof(h))
		return 0;
	memcpy(&h, cursor_bytes(&c, sizeof(h)), sizeof(h));
	tab = (struct pclntab){
		.format = h.format % 3,
		.quantum = h.quantum & 1 ? 1 : 4,
		.wrapper_id = h.wrapper_id,
		.text = h.text,
		.etext = h.etext,
		.count = h.count,
		.funcs_address = h.funcs_address,
		.gofunc_base = h.gofunc_base,
		.short_names = &short_names,
	};
	take_parts(&tab, &h, &c);
	limit_count(&tab);
	for (uint64_t i = 0; i < MAX_LOOKUPS; i++)
		look_up(&tab, tab.text + i * h.step);
	for (size_t i = 0; i < 2 * MAX_LOOKUPS && i < tab.count; i++)
		if (pclntab_function(&tab, i, &f))
			look_up(&tab, f.entry + 1);
	pclntab_find_name(&tab, "main.none", &f);
	pclntab_any_funcdata(&tab);
	release_parts(&tab);
	return 0;
}

static void emit_made(struct made_functions *m, fuzz_emit *emit, void *arg)
{
	const struct pclntab *tab = &m->tab;
	struct strbuf sb = STRBUF_INIT;
	struct bytes *parts[PARTS];
	struct header h = {
		.format = tab->format,
		.quantum = tab->quantum,
		.wrapper_id = tab->wrapper_id,
		.count = tab->count,
		.text = tab->text,
		.etext = tab->etext,
		.funcs_address = tab->funcs_address,
		.gofunc_base = tab->gofunc_base,
		.step = 16,
	};

	parts_of(&m->tab, parts);
	for (size_t i = 0; i < PARTS; i++)
		h.sizes[i] = parts[i]->size;
	strbuf_add(&sb, &h, sizeof(h));
	for (size_t i = 0; i < PARTS; i++)
		strbuf_add(&sb, parts[i]->data, parts[i]->size);
	fuzz_require(!sb.failed);
	emit(arg, sb.data, sb.length);
	strbuf_release(&sb);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	static const struct made_function functions[] = {
		{"main.main", NULL, 48, 0, 0},
		{"main.Map[go.shape.int,go.shape.string]", "main.inner[go.shape.int]", 24, 0, 0},
		{"main.(*T).Wrapped", "main.other", 16, 0, 99},
		{"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
	};

	for (enum pclntab_format format = PCLNTAB_GO116; format <= PCLNTAB_GO120; format++) {
		struct made_functions m;

		made_functions_init(&m, format, functions, ARRAY_SIZE(functions));
		emit_made(&m, emit, arg);
		made_functions_release(&m);
	}
}
