#include "made_program.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "fuzz.h"
#include "tests/made_functions.h"

#define TABLE 0x500000u /* where the function table is */
#define GOFUNC 0x600000u
#define HEADER_SIZE 72u

/* Offsets in the data. */
enum {
	ALLGLEN = 0x00,
	ALLGPTR = 0x08,
	ALLP = 0x10,
	ALLM = 0x28,
	GOMAXPROCS = 0x30,
	SCHED = 0x80,
	REASONS = 0x100,
	TEXTS = 0x200,
	MODULEDATA = 0x300,
	BUILDINFO = 0x600,
	VERSION = 0x680,
};

enum { RACE, PREEMPT, RESIZE, INIT, EXIT, REASON, MAIN, LEAF, ROOT, PANIC, GOEXIT, FUNCTIONS };

static const struct made_function functions[FUNCTIONS] = {
	[RACE] = {"runtime.forEachGRace", NULL, 8, 0, 0},
	[PREEMPT] = {"runtime.preemptall", NULL, 8, 0, 0},
	[RESIZE] = {"runtime.procresize", NULL, 8, 0, 0},
	[INIT] = {"runtime.mcommoninit", NULL, 8, 0, 0},
	[EXIT] = {"runtime.mexit", NULL, 8, 0, 0},
	[REASON] = {"runtime.waitReason.String", NULL, 8, 0, 0},
	[MAIN] = {"runtime.main", NULL, 24, 0, 0},
	[LEAF] = {"main.leaf[go.shape.int]", "main.inlined", 16, 0, 0},
	[ROOT] = {"main.root", NULL, 8, 0, 0},
	[PANIC] = {"runtime.sigpanic", NULL, 24, 0, 0},
	[GOEXIT] = {"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
};

/* A part of the file that is mapped. */
struct part {
	uint64_t address;
	size_t at;
	size_t size;
	uint32_t flags;
};

enum { PART_TEXT, PART_TABLE, PART_GOFUNC, PART_DATA, PARTS };

struct builder {
	struct made_program *p;
	struct made_functions made;
	struct part parts[PARTS];
	uint64_t lock; /* &sched.lock */
};

int bytes_to_fd(const void *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	fuzz_require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	return fd;
}

static void put(struct strbuf *sb, size_t at, const void *bytes, size_t size)
{
	fuzz_require(!sb->failed && at + size <= sb->length);
	memcpy(sb->data + at, bytes, size);
}

static void pad(struct strbuf *sb, size_t alignment)
{
	while (sb->length % alignment)
		strbuf_addc(sb, 0);
}

static void put64(uint8_t *bytes, size_t at, uint64_t value)
{
	memcpy(bytes + at, &value, sizeof(value));
}

static void put32(uint8_t *bytes, size_t at, uint32_t value)
{
	memcpy(bytes + at, &value, sizeof(value));
}

static enum pclntab_format format_of(int minor)
{
	return minor >= 20 ? PCLNTAB_GO120 : minor >= 18 ? PCLNTAB_GO118 : PCLNTAB_GO116;
}

/* Code that takes the address of a variable. */
static void add_reference(struct strbuf *sb, enum machine machine, uint64_t pc, uint64_t address)
{
	uint32_t page = (uint32_t)((address >> 12) - (pc >> 12));
	uint32_t code[2] = {0x90000000 | (page & 3) << 29 | (page >> 2 & 0x7ffff) << 5,
			    0x91000000 | (uint32_t)(address & 0xfff) << 10};
	int32_t displacement = (int32_t)(address - pc - 7);

	if (machine == MACHINE_ARM64) {
		strbuf_add(sb, code, sizeof(code));
		return;
	}
	strbuf_add(sb, "\x48\x8d\x05", 3);
	strbuf_add(sb, &displacement, sizeof(displacement));
}

static void add_code(struct builder *b, struct strbuf *sb)
{
	const uint64_t refs[FUNCTIONS][2] = {
		[RACE] = {PROGRAM_DATA + ALLGLEN, PROGRAM_DATA + ALLGPTR},
		[PREEMPT] = {PROGRAM_DATA + ALLP},
		[RESIZE] = {PROGRAM_DATA + GOMAXPROCS},
		[INIT] = {b->lock},
		[EXIT] = {b->lock, PROGRAM_DATA + ALLM},
		[REASON] = {PROGRAM_DATA + TEXTS, PROGRAM_DATA + REASONS},
	};
	size_t start = sb->length;

	for (size_t i = 0; i < FUNCTIONS; i++) {
		for (size_t k = 0; k < 2 && refs[i][k]; k++)
			add_reference(sb, b->p->machine, MADE_TEXT + sb->length - start,
				      refs[i][k]);
		while (sb->length - start < (i + 1) * MADE_SIZE)
			strbuf_add(sb, b->p->machine == MACHINE_ARM64 ? "\x1f\x20\x03\xd5" : "\x90",
				   b->p->machine == MACHINE_ARM64 ? 4 : 1);
	}
}

/* Points a slice of moduledata to the data that is added now. */
static void add_slice(struct builder *b, struct strbuf *sb, size_t word, const struct strbuf *bytes,
		      size_t item)
{
	uint8_t *moduledata = b->p->data + MODULEDATA;

	pad(sb, 8);
	put64(moduledata, word * 8, TABLE + sb->length - b->parts[PART_TABLE].at);
	put64(moduledata, word * 8 + 8, bytes->length / item);
	strbuf_add(sb, bytes->data, bytes->length);
}

static void add_table(struct builder *b, struct strbuf *sb)
{
	static const uint32_t magics[] = {0xfffffffa, 0xfffffff0, 0xfffffff1};
	enum pclntab_format format = format_of(b->p->minor);
	size_t entry = format == PCLNTAB_GO116 ? 16 : 8;
	uint8_t header[HEADER_SIZE] = {[6] = b->p->machine == MACHINE_AMD64 ? 1 : 4, [7] = 8};

	put32(header, 0, magics[format]);
	put64(header, 8, FUNCTIONS);
	strbuf_add(sb, header, sizeof(header));
	add_slice(b, sb, 1, &b->made.names, 1);
	add_slice(b, sb, 4, &b->made.cutab, 4);
	add_slice(b, sb, 7, &b->made.files, 1);
	add_slice(b, sb, 10, &b->made.pctab, 1);
	b->made.ftab.length = (FUNCTIONS + 1) * entry;
	add_slice(b, sb, 16, &b->made.ftab, entry);
	add_slice(b, sb, 13, &b->made.funcs, 1);
}

static void fill_moduledata(struct builder *b)
{
	uint8_t *m = b->p->data + MODULEDATA;
	int32_t gofunc = golayout_table(b->p->minor, 0)->moduledata_gofunc;

	put64(m, 0, TABLE);
	put64(m, 20 * 8, MADE_TEXT);
	put64(m, 22 * 8, MADE_TEXT);
	put64(m, 23 * 8, MADE_TEXT + FUNCTIONS * MADE_SIZE);
	if (gofunc != GOLAYOUT_ABSENT)
		put64(m, gofunc, GOFUNC);
}

static void fill_buildinfo(struct made_program *p)
{
	static const char modinfo[] = "0123456789abcdefpath\tmade\nbuild\t-compiler=gc\n"
				      "build\tCGO_ENABLED=0\n0123456789abcdef";
	struct strbuf version = STRBUF_INIT;
	uint8_t *blob = p->data + BUILDINFO, *text = p->data + VERSION;
	size_t n;

	strbuf_addf(&version, "go1.%d.1", p->minor);
	n = version.length;
	memcpy(blob, "\xff Go buildinf:", 14);
	blob[14] = 8;
	if (!p->pointers) {
		blob[15] = 2;
		blob[32] = n;
		memcpy(blob + 33, version.data, n);
		blob[33 + n] = strlen(modinfo);
		memcpy(blob + 34 + n, modinfo, strlen(modinfo));
	} else {
		put64(blob, 16, PROGRAM_DATA + VERSION);
		put64(blob, 24, PROGRAM_DATA + VERSION + 16);
		put64(text, 0, PROGRAM_DATA + VERSION + 32);
		put64(text, 8, n);
		put64(text, 16, PROGRAM_DATA + VERSION + 64);
		put64(text, 24, strlen(modinfo));
		memcpy(text + 32, version.data, n);
		memcpy(text + 64, modinfo, strlen(modinfo));
	}
	strbuf_release(&version);
}

static void fill_reasons(struct made_program *p)
{
	static const char text[] = "chan receivesleepselect";
	static const uint8_t places[][2] = {{0, 0}, {0, 12}, {12, 5}, {17, 6}};

	memcpy(p->data + TEXTS, text, sizeof(text));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		put64(p->data, REASONS + 16 * i, PROGRAM_DATA + TEXTS + places[i][0]);
		put64(p->data, REASONS + 16 * i + 8, places[i][1]);
	}
}

/* The relocations that the loader would apply: the words of moduledata and of the wait reasons. */
static void add_relocations(const struct made_program *p, struct strbuf *sb)
{
	uint32_t type = p->machine == MACHINE_AMD64 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE;
	int32_t gofunc = golayout_table(p->minor, 0)->moduledata_gofunc;
	size_t words[] =
		{0, 1, 4, 7, 10, 13, 16, 20, 22, 23, gofunc == GOLAYOUT_ABSENT ? 0 : gofunc / 8};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		Elf64_Rela r = {PROGRAM_DATA + MODULEDATA + words[i] * 8, ELF64_R_INFO(0, type), 0};

		memcpy(&r.r_addend, p->data + MODULEDATA + words[i] * 8, 8);
		strbuf_add(sb, &r, sizeof(r));
	}
}

static void add_part(struct builder *b, size_t which, uint64_t address, uint32_t flags,
		     void (*add)(struct builder *b, struct strbuf *sb))
{
	struct part *part = &b->parts[which];

	pad(&b->p->file, 16);
	*part = (struct part){address, b->p->file.length, 0, flags};
	add(b, &b->p->file);
	part->size = b->p->file.length - part->at;
}

static void add_gofunc(struct builder *b, struct strbuf *sb)
{
	strbuf_add(sb, b->made.gofunc.data, b->made.gofunc.length);
}

static void add_data(struct builder *b, struct strbuf *sb)
{
	strbuf_add(sb, b->p->data, sizeof(b->p->data));
}

static void add_sections(struct builder *b, Elf64_Ehdr *h)
{
	static const char names[] = "\0.shstrtab\0.go.buildinfo\0.gopclntab\0.rela";
	struct strbuf *sb = &b->p->file;
	const struct part *table = &b->parts[PART_TABLE], *data = &b->parts[PART_DATA];
	Elf64_Shdr s[5] = {
		{0},
		{.sh_name = 1, .sh_type = SHT_STRTAB, .sh_size = sizeof(names)},
		{.sh_name = 11,
		 .sh_type = SHT_PROGBITS,
		 .sh_addr = PROGRAM_DATA + BUILDINFO,
		 .sh_offset = data->at + BUILDINFO,
		 .sh_size = VERSION - BUILDINFO},
		{.sh_name = 25,
		 .sh_type = SHT_PROGBITS,
		 .sh_addr = TABLE,
		 .sh_offset = table->at,
		 .sh_size = table->size},
		{.sh_name = 36, .sh_type = SHT_RELA, .sh_flags = SHF_ALLOC},
	};

	s[1].sh_offset = sb->length;
	strbuf_add(sb, names, sizeof(names));
	pad(sb, 8);
	s[4].sh_offset = sb->length;
	if (b->p->pie)
		add_relocations(b->p, sb);
	s[4].sh_size = sb->length - s[4].sh_offset;
	h->e_shoff = sb->length;
	h->e_shentsize = sizeof(s[0]);
	h->e_shnum = ARRAY_SIZE(s);
	h->e_shstrndx = 1;
	strbuf_add(sb, s, sizeof(s));
}

static void add_headers(struct builder *b)
{
	Elf64_Phdr segments[PARTS] = {0};
	Elf64_Ehdr h = {.e_ident = ELFMAG "\2\1\1",
			.e_type = b->p->pie ? ET_DYN : ET_EXEC,
			.e_machine = b->p->machine == MACHINE_AMD64 ? EM_X86_64 : EM_AARCH64,
			.e_version = EV_CURRENT,
			.e_entry = MADE_TEXT,
			.e_phoff = sizeof(h),
			.e_ehsize = sizeof(h),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = PARTS};

	if (b->p->sections)
		add_sections(b, &h);
	for (size_t i = 0; i < PARTS; i++) {
		const struct part *part = &b->parts[i];

		segments[i] = (Elf64_Phdr){.p_type = PT_LOAD,
					   .p_flags = part->flags,
					   .p_offset = part->at,
					   .p_vaddr = part->address,
					   .p_filesz = part->size,
					   .p_memsz = part->size};
	}
	put(&b->p->file, 0, &h, sizeof(h));
	put(&b->p->file, sizeof(h), segments, sizeof(segments));
}

/* Offsets in the heap. */
enum {
	ALL_GS = 0x00,
	ALL_PS = 0x40,
	PS = 0x80,
	LABELS = 0x100,
	PANIC_VALUE = 0x400,
	GS = 0x800, /* goroutines, then g0 and gsignal of each m */
	MS = 0x1800,
	STACKS = 0x2800,
	G_STEP = 0x200,
	M_STEP = 0x800,
	STACK_STEP = 0x800,
	GOROUTINES = 4,
	MACHINES = 2,
};

static uint64_t heap(size_t at)
{
	return PROGRAM_HEAP + at;
}

/* Frames from the top of the stack down; the return addresses are where each architecture has
 * them. */
static uint64_t fill_stack(struct made_program *p, size_t i, size_t root)
{
	size_t top = STACKS + (i + 1) * STACK_STEP, sp = top - 64;

	put64(p->heap, sp + 16, made_pc(root, false));
	put64(p->heap, sp + 16 + 8 + functions[root].frame, MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	if (p->machine == MACHINE_ARM64) {
		put64(p->heap, sp, made_pc(root, false));
		put64(p->heap, sp + 16, MADE_TEXT + GOEXIT * MADE_SIZE + 4);
	}
	return heap(sp);
}

static void fill_goroutine(struct made_program *p, size_t i, uint32_t status)
{
	const struct golayout_numbers *n = golayout_table(p->minor, 0);
	size_t g = GS + i * G_STEP, root = i ? ROOT : MAIN;
	uint64_t sp = fill_stack(p, i, root);

	put64(p->heap, ALL_GS + 8 * i, heap(g));
	put64(p->heap, g + n->g_stack_lo, heap(STACKS + i * STACK_STEP));
	put64(p->heap, g + n->g_stack_hi, heap(STACKS + (i + 1) * STACK_STEP));
	put64(p->heap, g + n->g_sched_g, heap(g));
	put64(p->heap, g + n->g_sched_sp, sp);
	put64(p->heap, g + n->g_sched_pc, made_pc(LEAF, i & 1));
	put64(p->heap, g + n->g_syscallsp, status == 3 ? sp : 0);
	put64(p->heap, g + n->g_syscallpc, status == 3 ? made_pc(LEAF, false) : 0);
	put64(p->heap, g + n->g_goid, i + 1);
	put32(p->heap, g + n->g_status, status);
	put64(p->heap, g + n->g_startpc, MADE_TEXT + root * MADE_SIZE);
	put64(p->heap, g + n->g_gopc, i ? made_pc(ROOT, false) : 0);
	put64(p->heap, g + n->g_labels, i ? heap(LABELS) : 0);
	p->heap[g + n->g_waitreason] = status == 4 ? 1 + i % 3 : 0;
}

static void fill_machine(struct made_program *p, size_t i)
{
	const struct golayout_numbers *n = golayout_table(p->minor, 0);
	size_t m = MS + i * M_STEP, g0 = GS + (GOROUTINES + 2 * i) * G_STEP;

	put64(p->heap, m + n->m_g0, heap(g0));
	put64(p->heap, m + n->m_gsignal, heap(g0 + G_STEP));
	put64(p->heap, g0 + n->g_m, heap(m));
	put64(p->heap, g0 + G_STEP + n->g_m, heap(m));
	put64(p->heap, m + n->m_id, MACHINES - 1 - i); /* the oldest is the last */
	put64(p->heap, m + n->m_procid, PROGRAM_THREAD - 1 + i);
	put64(p->heap, m + n->m_alllink, i + 1 < MACHINES ? heap(m + M_STEP) : 0);
	put64(p->heap, ALL_PS + 8 * i, heap(PS + i * 0x20));
	put32(p->heap, PS + i * 0x20 + n->p_id, i);
	put32(p->heap, PS + i * 0x20 + n->p_status, i);
}

/* Goroutine 3 runs on the second m, and panicked. */
static void fill_running(struct made_program *p)
{
	const struct golayout_numbers *n = golayout_table(p->minor, 0);
	size_t m = MS + M_STEP, g = GS + 2 * G_STEP, at = PANIC_VALUE + (p->minor < 26 ? 8 : 0);

	put64(p->heap, m + n->m_curg, heap(g));
	put64(p->heap, m + n->m_p, heap(PS + 0x20));
	put64(p->heap, g + n->g_m, heap(m));
	put64(p->heap, g + 32, heap(PANIC_VALUE));
	put64(p->heap, at, heap(PANIC_VALUE + 0x40));
	put64(p->heap, at + 8, heap(PANIC_VALUE + 0x80));
	p->heap[PANIC_VALUE + 0x40 + 23] = 24; /* a string */
	put64(p->heap, PANIC_VALUE + 0x80, heap(PANIC_VALUE + 0xa0));
	put64(p->heap, PANIC_VALUE + 0x88, 4);
	memcpy(p->heap + PANIC_VALUE + 0xa0, "oops", 4);
	p->running_pc = made_pc(LEAF, true);
	memcpy(&p->running_sp, p->heap + g + n->g_sched_sp, 8);
}

/* {user: "a b"} as a slice, or, up to Go 1.23, as a map of one bucket. */
static void fill_labels(struct made_program *p)
{
	bool map = p->minor < 24;
	size_t keys = map ? LABELS + 0x58 : LABELS + 0x20, values = keys + (map ? 128 : 16);
	uint64_t text = heap(LABELS + 0x200);

	memcpy(p->heap + LABELS + 0x200, "usera b", 7);
	if (map) {
		put64(p->heap, LABELS, heap(LABELS + 0x10));
		put64(p->heap, LABELS + 0x10, 1);
		put64(p->heap, LABELS + 0x20, heap(LABELS + 0x50));
		p->heap[LABELS + 0x50] = 0x80; /* tophash */
	} else {
		put64(p->heap, LABELS, heap(LABELS + 0x20));
		put64(p->heap, LABELS + 8, 1);
		put64(p->heap, LABELS + 16, 1);
	}
	put64(p->heap, keys, text);
	put64(p->heap, keys + 8, 4);
	put64(p->heap, values, text + 4);
	put64(p->heap, values + 8, 3);
}

static void fill_memory(struct made_program *p)
{
	const struct golayout_numbers *n = golayout_table(p->minor, 0);
	static const uint32_t states[GOROUTINES] = {4, 3, 2, 1};

	put64(p->data, ALLGLEN, GOROUTINES);
	put64(p->data, ALLGPTR, heap(ALL_GS));
	put64(p->data, ALLP, heap(ALL_PS));
	put64(p->data, ALLP + 8, MACHINES);
	put64(p->data, ALLM, heap(MS));
	put32(p->data, GOMAXPROCS, MACHINES);
	put64(p->data, SCHED + n->sched_goidgen, 20);
	put64(p->data, SCHED + 8, 1000000000);
	for (size_t i = 0; i < GOROUTINES; i++)
		fill_goroutine(p, i, states[i]);
	for (size_t i = 0; i < MACHINES; i++)
		fill_machine(p, i);
	fill_running(p);
	fill_labels(p);
}

void made_program_init(struct made_program *p)
{
	static const struct strbuf empty = STRBUF_INIT;
	static const uint8_t headers[sizeof(Elf64_Ehdr) + PARTS * sizeof(Elf64_Phdr)];
	const struct golayout_numbers *n = golayout_table(p->minor, 0);
	struct builder b = {.p = p, .lock = PROGRAM_DATA + SCHED + n->sched_lock};

	p->file = empty;
	memset(p->data, 0, sizeof(p->data));
	memset(p->heap, 0, sizeof(p->heap));
	made_functions_init(&b.made, format_of(p->minor), functions, FUNCTIONS);
	strbuf_add(&p->file, headers, sizeof(headers));
	add_part(&b, PART_TEXT, MADE_TEXT, PF_R | PF_X, add_code);
	add_part(&b, PART_TABLE, TABLE, PF_R, add_table);
	add_part(&b, PART_GOFUNC, GOFUNC, PF_R, add_gofunc);
	fill_moduledata(&b);
	fill_buildinfo(p);
	fill_reasons(p);
	add_part(&b, PART_DATA, PROGRAM_DATA, PF_R | PF_W, add_data);
	add_headers(&b);
	fuzz_require(!p->file.failed);
	fill_memory(p);
	made_functions_release(&b.made);
}

void made_program_release(struct made_program *p)
{
	strbuf_release(&p->file);
}
