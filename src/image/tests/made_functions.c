#include "tests/made_functions.h"

#include <stdlib.h>
#include <string.h>

#define FUNCS_ADDRESS 0x500000u
#define GOFUNC_ADDRESS 0x600000u

static void add_u32(struct strbuf *sb, uint32_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void add_u64(struct strbuf *sb, uint64_t value)
{
	strbuf_add(sb, &value, sizeof(value));
}

static void add_varint(struct strbuf *sb, uint32_t value)
{
	for (; value >= 0x80; value >>= 7)
		strbuf_addc(sb, value | 0x80);
	strbuf_addc(sb, value);
}

/* A pc-value table of up to three stretches: {value, length} each. */
static uint32_t add_table(struct strbuf *sb, const int32_t (*runs)[2], size_t count)
{
	uint32_t at = sb->length;
	int32_t value = -1;

	for (size_t i = 0; i < count; i++) {
		int32_t delta = runs[i][0] - value;

		add_varint(sb, delta < 0 ? ~((uint32_t)delta << 1) : (uint32_t)delta << 1);
		add_varint(sb, runs[i][1]);
		value = runs[i][0];
	}
	strbuf_addc(sb, 0);
	return at;
}

static uint32_t add_name(struct strbuf *sb, const char *name)
{
	uint32_t at = sb->length;

	strbuf_add(sb, name, strlen(name) + 1);
	return at;
}

/* runtime.inlinedCall of both layouts. */
static uint32_t add_tree(struct made_functions *m, enum pclntab_format format, const char *inlined)
{
	uint32_t at = m->gofunc.length, name = add_name(&m->names, inlined);

	if (format == PCLNTAB_GO120) {
		add_u32(&m->gofunc, 0);
		add_u32(&m->gofunc, name);
		add_u32(&m->gofunc, MADE_BODY);
		add_u32(&m->gofunc, 1);
		return at;
	}
	add_u32(&m->gofunc, 0);
	add_u32(&m->gofunc, 0);
	add_u32(&m->gofunc, 1);
	add_u32(&m->gofunc, name);
	add_u32(&m->gofunc, MADE_BODY);
	return at;
}

struct tables {
	uint32_t name, pcsp, pcfile, pcln, inline_index, tree, cu;
};

static void add_func(struct made_functions *m, enum pclntab_format format, size_t i,
		     const struct made_function *f, const struct tables *t)
{
	struct strbuf *sb = &m->funcs;

	if (format == PCLNTAB_GO116)
		add_u64(sb, MADE_TEXT + i * MADE_SIZE);
	else
		add_u32(sb, i * MADE_SIZE);
	add_u32(sb, t->name);
	add_u32(sb, 0);
	add_u32(sb, 0);
	add_u32(sb, t->pcsp);
	add_u32(sb, t->pcfile);
	add_u32(sb, t->pcln);
	add_u32(sb, 3); /* npcdata */
	add_u32(sb, t->cu);
	if (format == PCLNTAB_GO120)
		add_u32(sb, 1); /* startLine */
	strbuf_addc(sb, f->func_id);
	strbuf_addc(sb, f->flags);
	strbuf_addc(sb, 0);
	strbuf_addc(sb, 4); /* nfuncdata */
	add_u32(sb, 0);
	add_u32(sb, 0);
	add_u32(sb, t->inline_index);
	while (format == PCLNTAB_GO116 && (FUNCS_ADDRESS + sb->length) & 7)
		strbuf_addc(sb, 0);
	for (int k = 0; k < 4; k++) {
		bool tree = k == 3 && f->inlined;

		if (format == PCLNTAB_GO116)
			add_u64(sb, tree ? GOFUNC_ADDRESS + t->tree : 0);
		else
			add_u32(sb, tree ? t->tree : UINT32_MAX);
	}
}

static void add_function(struct made_functions *m, enum pclntab_format format, size_t i,
			 const struct made_function *f)
{
	int32_t sp[][2] = {{0, MADE_BODY}, {f->frame, MADE_SIZE - MADE_BODY}};
	int32_t frameless[][2] = {{0, MADE_SIZE}};
	int32_t file[][2] = {{0, MADE_SIZE}};
	int32_t line[][2] = {{10 * i + 1, MADE_INLINED}, {10 * i + 2, MADE_SIZE - MADE_INLINED}};
	int32_t index[][2] = {{-1, MADE_INLINED}, {0, MADE_SIZE - MADE_INLINED}};
	struct tables t = {.name = add_name(&m->names, f->name), .cu = m->cutab.length / 4};
	uint64_t entry = MADE_TEXT + i * MADE_SIZE;

	add_u32(&m->cutab, m->files.length);
	strbuf_addf(&m->files, "/src/%zu.go", i);
	strbuf_addc(&m->files, 0);
	t.pcsp = f->frame ? add_table(&m->pctab, sp, 2) : add_table(&m->pctab, frameless, 1);
	t.pcfile = add_table(&m->pctab, file, 1);
	t.pcln = add_table(&m->pctab, line, 2);
	if (f->inlined) {
		t.inline_index = add_table(&m->pctab, index, 2);
		t.tree = add_tree(m, format, f->inlined);
	}
	while (m->funcs.length & 7)
		strbuf_addc(&m->funcs, 0);
	if (format == PCLNTAB_GO116) {
		add_u64(&m->ftab, entry);
		add_u64(&m->ftab, m->funcs.length);
	} else {
		add_u32(&m->ftab, i * MADE_SIZE);
		add_u32(&m->ftab, m->funcs.length);
	}
	add_func(m, format, i, f, &t);
}

static struct bytes bytes_of(const struct strbuf *sb)
{
	if (sb->failed)
		abort();
	return (struct bytes){(const uint8_t *)sb->data, sb->length};
}

void made_functions_init(struct made_functions *m, enum pclntab_format format,
			 const struct made_function *functions, size_t count)
{
	static const struct strbuf empty = STRBUF_INIT;
	uint64_t end = MADE_TEXT + count * MADE_SIZE;

	*m = (struct made_functions){.ftab = empty,
				     .funcs = empty,
				     .names = empty,
				     .cutab = empty,
				     .files = empty,
				     .pctab = empty,
				     .gofunc = empty};
	strbuf_addc(&m->pctab, 0); /* offset 0 means none */
	for (size_t i = 0; i < count; i++)
		add_function(m, format, i, &functions[i]);
	add_u64(&m->ftab, format == PCLNTAB_GO116 ? end : end - MADE_TEXT);
	add_u64(&m->ftab, 0);
	m->tab = (struct pclntab){
		.format = format,
		.quantum = 1,
		.wrapper_id = 99,
		.text = MADE_TEXT,
		.etext = end,
		.count = count,
		.ftab = bytes_of(&m->ftab),
		.funcs = bytes_of(&m->funcs),
		.names = bytes_of(&m->names),
		.cutab = bytes_of(&m->cutab),
		.files = bytes_of(&m->files),
		.pctab = bytes_of(&m->pctab),
		.gofunc = bytes_of(&m->gofunc),
		.funcs_address = FUNCS_ADDRESS,
		.gofunc_base = format == PCLNTAB_GO116 ? GOFUNC_ADDRESS : 0,
		.short_names = &m->short_names,
	};
}

void made_functions_release(struct made_functions *m)
{
	struct strbuf *all[] = {&m->ftab,  &m->funcs, &m->names, &m->cutab,
				&m->files, &m->pctab, &m->gofunc};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		strbuf_release(all[i]);
	intern_release(&m->short_names);
}
