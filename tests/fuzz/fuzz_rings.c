/*
 * Shared memory that a hostile target writes to while it is read: rings, chunks, the table of
 * stacks and its arena; through the rings, the drain, the decoder, the model and both formats.
 *
 * An input is steps: bytes that are written as the agent would, words that are put anywhere, and
 * looks at the rings. Whatever comes, Go's format must be read again without an error.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "collect/decode.h"
#include "collect/rings.h"
#include "collect/ticks.h"
#include "fuzz.h"
#include "gotrace/model.h"
#include "gotrace/trace_format.h"
#include "gotrace/trace_reader.h"
#include "tests/made_runtime.h"

enum { SLOTS = 2 + AGENT_FALLBACK_SLOTS, WRITTEN = 3, RING = 4 * AGENT_CHUNK_BYTES };
enum { ARENA_WORDS = 1024, BLOCKS = 8, TEXT_MOST = 64 };

/* The kind of a step; its arguments follow. */
enum {
	STEP_WRITE,   /* slot, length (2 bytes), bytes: into its ring */
	STEP_CHUNK,   /* slot, tick (8), lost (1): a chunk begins */
	STEP_STACK,   /* number (1), count (1), words: into the arena */
	STEP_POKE,    /* place (4), word (8): of the whole memory */
	STEP_COLLECT, /* up to now */
	STEP_SWEEP,
	STEP_GENERATION,
	STEP_KINDS
};

struct output {
	const struct trace_format *format;
	struct trace_writer *writer;
	struct trace_model *model;
	struct strbuf bytes;
};

/* Stands in for the room `inject`: memory that is to be populated. */
struct injection {
	const struct agent_shared *layout;
	const struct agent_shared *shared;
};

void inject_read(const struct injection *in, uint64_t offset, void *ret, size_t size)
{
	fuzz_require(offset >= in->layout->rings_offset);
	fuzz_require(offset <= in->layout->size && size <= in->layout->size - offset);
	memcpy(ret, (const uint8_t *)in->shared + offset, size);
}

void inject_populate(const struct injection *in, uint64_t offset, uint64_t size)
{
	fuzz_require(offset >= in->layout->rings_offset && size);
	fuzz_require(offset <= in->layout->size && size <= in->layout->size - offset);
}

struct rig {
	struct made_runtime runtime;
	struct agent_shared *shared;
	struct agent_shared layout;
	struct injection injection;
	struct rings *rings;
	struct backlog *backlog;
	struct drain *drain;
	struct decoder *decoder;
	struct ticks ticks;
	struct output outputs[2];
	uint64_t ns;
	uint64_t tick;
};

static struct error *take_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	strbuf_add(arg, bytes, size);
	return NULL;
}

static void open_output(struct rig *r, struct output *o, bool separate)
{
	struct trace_writer_options options = {.functions = &r->runtime.img.functions,
					       .stacks = decoder_stacks(r->decoder),
					       .texts = decoder_texts(r->decoder),
					       .depth = 32,
					       .separate = separate,
					       .process = "made-up",
					       .pid = 1,
					       .generation = take_generation,
					       .arg = &o->bytes};
	struct trace_sink sink;

	o->bytes = (struct strbuf)STRBUF_INIT;
	strbuf_add(&o->bytes, o->format->header, o->format->header_size);
	fuzz_require(!o->format->create(&options, &o->writer));
	sink = o->format->sink(o->writer);
	fuzz_require(!trace_model_create(&sink, &o->model));
}

static void make_memory(struct rig *r)
{
	struct agent_shared *l = &r->layout;

	l->slots = SLOTS;
	l->ring_bytes = RING;
	l->table_offset = 4096;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = ARENA_WORDS;
	l->slots_offset = l->arena_offset + ARENA_WORDS * sizeof(uint64_t);
	l->rings_offset = l->slots_offset + SLOTS * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + (uint64_t)SLOTS * RING;
	l->config.text = MADE_TEXT;
	l->sites.entry_points[0] = MADE_TEXT + MADE_ROOT * MADE_SIZE;
	r->shared = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fuzz_require(r->shared != MAP_FAILED);
}

static void open_rig(struct rig *r, bool separate)
{
	struct tick_pair pairs[] = {{.tick = 1, .ns = 1}, {.tick = 1000000, .ns = 500000}};

	made_runtime_init(&r->runtime, 27, 4);
	make_memory(r);
	r->injection.layout = &r->layout;
	r->injection.shared = r->shared;
	ticks_add(&r->ticks, &pairs[0]);
	ticks_add(&r->ticks, &pairs[1]);
	fuzz_require(!rings_create(r->shared, &r->layout, &r->injection, UINT64_MAX, &r->rings));
	fuzz_require(!backlog_create(BLOCKS, &r->backlog));
	fuzz_require(!drain_create(&r->layout, r->backlog, &r->drain));
	fuzz_require(!decoder_create(&r->runtime.base, &r->runtime.img, &r->runtime.lay,
				     &(struct stack_cache){r->shared, &r->layout}, &r->decoder));
	r->outputs[0].format = &trace_format_go;
	r->outputs[1].format = &trace_format_perfetto;
	for (int i = 0; i < 2; i++)
		open_output(r, &r->outputs[i], separate);
}

static void close_rig(struct rig *r)
{
	for (int i = 0; i < 2; i++) {
		trace_model_destroy(r->outputs[i].model);
		r->outputs[i].format->destroy(r->outputs[i].writer);
		strbuf_release(&r->outputs[i].bytes);
	}
	decoder_destroy(r->decoder);
	drain_destroy(r->drain);
	backlog_destroy(r->backlog);
	rings_destroy(r->rings);
	munmap(r->shared, r->layout.size);
	made_runtime_release(&r->runtime);
	free(r);
}

/* ---- the target's actions ---- */

static uint8_t *memory(struct rig *r, uint64_t offset)
{
	return (uint8_t *)r->shared + offset;
}

static struct agent_slot *slot_of(struct rig *r, unsigned int i)
{
	return (void *)memory(r, r->layout.slots_offset + (uint64_t)i * AGENT_SLOT_BYTES);
}

static void write_ring(struct rig *r, unsigned int slot, const void *bytes, size_t n)
{
	struct agent_slot *s = slot_of(r, slot);

	for (size_t i = 0; i < n; i++)
		*memory(r, r->layout.rings_offset + (uint64_t)slot * RING + s->write++ % RING) =
			((const uint8_t *)bytes)[i];
}

static void step_chunk(struct rig *r, struct cursor *c)
{
	unsigned int slot = cursor_u8(c) % WRITTEN;
	struct agent_chunk chunk = {.tick = cursor_u64(c), .thread = 100 + slot};
	struct agent_slot *s = slot_of(r, slot);

	chunk.lost = cursor_u8(c);
	s->write = (s->write | (AGENT_CHUNK_BYTES - 1)) + 1 -
		   (s->write & (AGENT_CHUNK_BYTES - 1) ? 0 : AGENT_CHUNK_BYTES);
	write_ring(r, slot, &chunk, sizeof(chunk));
}

static void step_stack(struct rig *r, struct cursor *c)
{
	struct agent_stack *table = (void *)memory(r, r->layout.table_offset);
	uint64_t *arena = (void *)memory(r, r->layout.arena_offset);
	uint8_t number = cursor_u8(c), count = cursor_u8(c);
	uint64_t at = (number * 29ull) % ARENA_WORDS;

	table[number].offset = at + 1;
	arena[at] = count;
	for (uint64_t i = 1; i <= count && at + i < ARENA_WORDS && !c->failed; i++)
		arena[at + i] = cursor_u64(c);
}

static void step_poke(struct rig *r, struct cursor *c)
{
	uint64_t place = cursor_u32(c) % (r->layout.size / 8), word = cursor_u64(c);

	memcpy(memory(r, place * 8), &word, sizeof(word));
}

/* ---- gospect's actions ---- */

static void take_record(struct rig *r, const struct drain_record *record)
{
	struct trace_event events[DECODE_MAX_EVENTS];
	uint64_t ns = ticks_to_ns(&r->ticks, record->tick);
	size_t count = 0;

	r->ns = ns > r->ns ? ns : r->ns;
	fuzz_require(!decoder_events(r->decoder, record, r->ns, events, &count));
	fuzz_require(count <= DECODE_MAX_EVENTS);
	for (size_t i = 0; i < count; i++)
		for (int k = 0; k < 2; k++)
			fuzz_require(!trace_model_add(r->outputs[k].model, &events[i]));
	fuzz_accepted += count;
}

static void collect(struct rig *r, bool ended)
{
	const struct drain_record *record;
	struct block *first = backlog_get(r->backlog);

	if (!first)
		return;
	r->tick += 1000000;
	rings_collect(r->rings, r->backlog, first, r->tick, 0, ended);
	backlog_put(r->backlog, first);
	fuzz_require(!backlog_take(r->backlog, &first) && first);
	drain_add(r->drain, first);
	while ((record = drain_next(r->drain)))
		take_record(r, record);
}

static void sweep(struct rig *r)
{
	struct texts *texts = decoder_texts(r->decoder);

	decoder_mark_texts(r->decoder);
	for (int i = 0; i < 2; i++) {
		trace_model_mark_texts(r->outputs[i].model, texts);
		r->outputs[i].format->mark_texts(r->outputs[i].writer, texts);
	}
	texts_sweep(texts);
}

static void new_generation(struct rig *r)
{
	for (int i = 0; i < 2; i++)
		fuzz_require(!trace_model_new_generation(r->outputs[i].model, r->ns));
}

static void take_step(struct rig *r, struct cursor *c)
{
	unsigned int slot;
	size_t n;

	switch (cursor_u8(c) % STEP_KINDS) {
	case STEP_WRITE:
		slot = cursor_u8(c) % WRITTEN;
		n = cursor_u16(c);
		n = n < (size_t)(c->end - c->at) ? n : (size_t)(c->end - c->at);
		write_ring(r, slot, cursor_bytes(c, n), n);
		break;
	case STEP_CHUNK:
		step_chunk(r, c);
		break;
	case STEP_STACK:
		step_stack(r, c);
		break;
	case STEP_POKE:
		step_poke(r, c);
		break;
	case STEP_COLLECT:
		collect(r, false);
		break;
	case STEP_SWEEP:
		sweep(r);
		break;
	default:
		new_generation(r);
	}
}

static void read_again(const struct strbuf *file)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct trace_step step;
	bool more = true;

	fuzz_require(!file->failed && !trace_reader_create(file->data, file->length, &reader));
	while (more)
		fuzz_require(!trace_reader_next(reader, &step, &more));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, "the input");
	struct rig *r = calloc(1, sizeof(*r));

	fuzz_require(r);
	open_rig(r, size && data[size - 1] & 1);
	while (c.at < c.end && !c.failed)
		take_step(r, &c);
	collect(r, true);
	sweep(r);
	for (int i = 0; i < 2; i++)
		fuzz_require(!r->outputs[i].format->finish(r->outputs[i].writer));
	read_again(&r->outputs[0].bytes);
	close_rig(r);
	return 0;
}

/* ---- seeds ---- */

static void add_u(struct strbuf *sb, uint64_t value, int bytes)
{
	for (; bytes; bytes--, value >>= 8)
		strbuf_addc(sb, (char)value);
}

static void begin_chunk(struct strbuf *sb, uint8_t slot, uint64_t tick)
{
	strbuf_addc(sb, STEP_CHUNK);
	strbuf_addc(sb, slot);
	add_u(sb, tick, 8);
	strbuf_addc(sb, 0);
}

static void add_stack(struct strbuf *sb, uint8_t number, bool cut)
{
	strbuf_addc(sb, STEP_STACK);
	strbuf_addc(sb, number);
	strbuf_addc(sb, 3);
	add_u(sb, made_pc(MADE_LEAF, false), 8);
	add_u(sb, made_pc(MADE_ROOT, false) | (cut ? AGENT_WORD_CUT : 0), 8);
	add_u(sb, made_pc(MADE_GOEXIT, false) | (cut ? AGENT_WORD_AT_SP : 0), 8);
}

/* One of each kind, with small numbers and short texts. */
static void add_records(struct strbuf *sb, uint8_t slot, uint8_t goid)
{
	static const uint8_t kinds[] = {RECORD_START,        RECORD_CREATE,     RECORD_LABELS,
					RECORD_REGION_BEGIN, RECORD_CALL,       RECORD_TASK_BEGIN,
					RECORD_LOG,          RECORD_SYSCALL,    RECORD_SYSCALL_EXIT,
					RECORD_RETURN,       RECORD_REGION_END, RECORD_TASK_END,
					RECORD_LABELS_AGAIN, RECORD_UNBLOCK,    RECORD_GC_BEGIN,
					RECORD_STW_BEGIN,    RECORD_STW_END,    RECORD_GC_END,
					RECORD_BLOCK};
	_cleanup_strbuf_ struct strbuf records = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bool labels = kinds[i] == RECORD_LABELS;

		strbuf_addc(&records, kinds[i]);
		strbuf_add(&records, (uint8_t[]){5, goid, kinds[i] == RECORD_CREATE ? goid + 1 : 1},
			   3);
		/* Numbers and texts alike: lengths of texts are small. */
		strbuf_add(&records, labels ? "\x00\x04\x01k\x01v" : "\x01\x02tx\x02yz",
			   labels ? 6 : 7);
	}
	strbuf_addc(sb, STEP_WRITE);
	strbuf_addc(sb, slot);
	add_u(sb, records.length, 2);
	strbuf_add(sb, records.data, records.length);
}

/* Records as they are laid out, one kind. */
static void add_plain(struct strbuf *sb, uint8_t slot, uint8_t goid)
{
	static const uint8_t few[][5] = {{RECORD_START, 5, 0},       {RECORD_CREATE, 5, 1, 10, 1},
					 {RECORD_SYSCALL, 5, 0, 1},  {RECORD_SYSCALL_EXIT, 5, 0},
					 {RECORD_CALL, 5, 0, 0, 64}, {RECORD_BLOCK, 5, 0, 2, 3},
					 {RECORD_UNBLOCK, 5, 0, 1}};
	static const uint8_t sizes[] = {3, 5, 4, 3, 5, 5, 4};

	for (size_t i = 0; i < ARRAY_SIZE(few); i++) {
		strbuf_addc(sb, STEP_WRITE);
		strbuf_addc(sb, slot);
		add_u(sb, sizes[i], 2);
		strbuf_add(sb, (uint8_t[]){few[i][0], few[i][1], few[i][2] + goid}, 3);
		strbuf_add(sb, few[i] + 3, sizes[i] - 3);
	}
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (uint8_t i = 0; i < 4; i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		add_stack(&sb, 0, false);
		add_stack(&sb, 1, true);
		for (uint8_t slot = 0; slot < WRITTEN; slot++) {
			begin_chunk(&sb, slot, 1000);
			add_plain(&sb, slot, 1 + 2 * slot);
			if (i & 2)
				add_records(&sb, slot, 1 + 2 * slot);
		}
		strbuf_addc(&sb, STEP_COLLECT);
		strbuf_addc(&sb, STEP_GENERATION);
		strbuf_addc(&sb, STEP_SWEEP);
		begin_chunk(&sb, 0, 2000000);
		add_plain(&sb, 0, 1);
		add_records(&sb, 0, 1);
		strbuf_addc(&sb, i & 1 ? STEP_COLLECT : STEP_SWEEP);
		emit(arg, sb.data, sb.length);
	}
}
