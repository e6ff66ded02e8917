#include "tests/made_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"

#define BASE_ADDRESS 0x401000u
#define WORD_DISTANCE 16u
#define TICK_MS 10u

static void must(bool ok)
{
	if (!ok)
		abort();
}

void made_up_init(struct made_up *m, const char *command, uint64_t duration_ms)
{
	struct profile_mapping mapping = {
		.start = 0x400000,
		.end = 0x4000000,
		.file = (char *)"/usr/bin/shop",
		.build_id = (char *)"d1ce0ff1ce",
	};
	struct profile *p = profile_create();

	must(p);
	*m = (struct made_up){.profile = p, .random = 88172645463325252u};
	p->command = strdup(command);
	p->go_version = strdup("go1.27.2");
	p->time_ns = 1700000000000000000u;
	p->duration_ns = duration_ms * 1000000;
	p->period_ns = TICK_MS * 1000000;
	must(p->command && p->go_version && !profile_add_mapping(p, &mapping));
	must(!profile_add_comment(p, "Go: %s", p->go_version));
	must(!profile_add_comment(p, "rate: 99.8 Hz of 100 Hz, 2 ticks missed"));
	must(!profile_add_comment(p, "goroutines per tick: 1207 seen, 1207 sampled"));
	must(!profile_add_comment(p, "reads dropped as torn: 3, stacks truncated: 0"));
}

void made_up_deinit(struct made_up *m)
{
	profile_destroy(m->profile);
	intern_release(&m->names);
	free(m->words);
}

/* "~function file:line" */
static struct go_frame parse_frame(struct made_up *m, const char *text, size_t length)
{
	struct go_frame frame = {.file = ""};
	uint32_t id;
	char *copy, *file, *line;

	if (length && *text == '~') {
		frame.wrapper = true;
		text++;
		length--;
	}
	copy = strndup(text, length);
	must(copy);
	file = strchr(copy, ' ');
	line = file ? strrchr(file, ':') : NULL;
	if (line) {
		frame.line = atoi(line + 1);
		*line = *file = '\0';
		id = intern_string(&m->names, file + 1);
		frame.file = intern_get(&m->names, id);
	}
	id = intern_string(&m->names, copy);
	frame.function = intern_get(&m->names, id);
	free(copy);
	return frame;
}

static uint64_t pseudo_word(const char *text, size_t length)
{
	if (length == 9 && !memcmp(text, "[running]", 9))
		return STACK_PC_RUNNING;
	if (length == 11 && !memcmp(text, "[truncated]", 11))
		return STACK_PC_TRUNCATED;
	return 0;
}

static void parse_word(struct made_up *m, const char *text, size_t length, struct made_up_word *w)
{
	const char *end = text + length, *next;

	for (; text < end; text = next + 4) {
		next = memmem(text, end - text, " <- ", 4);
		must(w->count < ARRAY_SIZE(w->frames));
		w->frames[w->count] = parse_frame(m, text, (next ? next : end) - text);
		w->frames[w->count++].inlined = next != NULL;
		if (!next)
			return;
	}
}

/* Words are numbered as their texts are: the map is intern's. */
static uint64_t word_of(struct made_up *m, const char *text, size_t length)
{
	uint64_t pc = pseudo_word(text, length);
	uint32_t id;

	if (pc)
		return pc;
	id = intern_bytes(&m->names, text, length);
	must(id != INTERN_FAILED && array_reserve(&m->words, &m->word_capacity, id + 1));
	if (m->word_count <= id)
		m->word_count = id + 1;
	if (!m->words[id].count)
		parse_word(m, text, length, &m->words[id]);
	return BASE_ADDRESS + (uint64_t)id * WORD_DISTANCE;
}

static uint32_t text_id(struct made_up *m, const char *text, size_t length)
{
	uint32_t id = intern_bytes(&m->profile->strings, text, length);

	must(id != INTERN_FAILED);
	return id;
}

static uint32_t parse_labels(struct made_up *m, const char *text, struct profile_label *ret)
{
	uint32_t n = 0;

	while (text && *text) {
		size_t length = strcspn(text, " "), key = strcspn(text, "=");

		ret[n].key = text_id(m, text, key);
		ret[n++].value = text_id(m, text + key + 1, length - key - 1);
		text += length + strspn(text + length, " ");
	}
	return n;
}

static uint32_t add(struct made_up *m, const struct made_up_sample *sample, const char *stack)
{
	struct profile_label labels[8];
	uint64_t pcs[256];
	uint32_t place;
	struct profile_sample s = {
		.pcs = &pcs[ARRAY_SIZE(pcs)],
		.state = sample->state,
		.labels = labels,
		.count = sample->wall_ms / TICK_MS,
		.wall_ns = sample->wall_ms * 1000000,
		.cpu_ns = sample->state == PROFILE_RUNNING ? sample->wall_ms * 1000000 : 0,
		.idle_count = sample->idle_ms / TICK_MS,
		.idle_ns = sample->idle_ms * 1000000,
		.longest_ns = sample->longest_ms * 1000000,
		.longest_goroutine = sample->longest_ms ? 18 : 0,
	};

	s.label_count = parse_labels(m, sample->labels, labels);
	if (sample->wait)
		s.wait = text_id(m, sample->wait, strlen(sample->wait));
	while (*stack) {
		size_t length = strcspn(stack, ";");

		must(s.depth < ARRAY_SIZE(pcs));
		pcs[ARRAY_SIZE(pcs) - ++s.depth] = word_of(m, stack, length);
		stack += length + (stack[length] == ';');
	}
	s.pcs -= s.depth;
	must(!profile_add_at(m->profile, &s, &place));
	return place;
}

void made_up_add(struct made_up *m, const struct made_up_sample *sample, const char *stack)
{
	add(m, sample, stack);
}

void made_up_add_from(struct made_up *m, const struct made_up_sample *sample, uint64_t from_ms,
		      uint64_t to_ms, const char *stack)
{
	uint32_t place = add(m, sample, stack);

	must(!timeline_add(&m->profile->timeline, place, from_ms * 1000000, to_ms * 1000000,
			   sample->wall_ms * 1000000));
}

static size_t frames_of_word(const void *functions, uint64_t pc, struct go_frame *ret, size_t max)
{
	const struct made_up *m = functions;
	uint64_t id = (pc - BASE_ADDRESS) / WORD_DISTANCE;

	if (pc < BASE_ADDRESS || id >= m->word_count || m->words[id].count > max)
		return 0;
	memcpy(ret, m->words[id].frames, m->words[id].count * sizeof(*ret));
	return m->words[id].count;
}

struct profile_symbols *made_up_symbolize(const struct made_up *m)
{
	struct symbol_source source = {frames_of_word, m};
	struct profile_symbols *symbols;

	must(!symbols_create(m->profile, &source, &symbols));
	return symbols;
}

void made_up_small(struct made_up *m)
{
	made_up_init(m, "small", 10000);
	made_up_add(m,
		    &(struct made_up_sample){PROFILE_WAITING, "chan receive", "user=ann", 4000, 0},
		    "main.main /src/main.go:10;main.handler /src/main.go:20;main.query "
		    "/src/db.go:7");
	made_up_add(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, "user=bob", 2000, 0},
		    "main.main /src/main.go:10;main.handler /src/main.go:21;"
		    "main.compute /src/cpu.go:3");
	made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, "IO wait", NULL, 3000, 3000},
		    "main.main /src/main.go:10;main.handler /src/main.go:20;main.query "
		    "/src/db.go:9");
	made_up_add(m, &(struct made_up_sample){PROFILE_RUNNABLE, NULL, NULL, 500, 0},
		    "main.main /src/main.go:11;main.worker /src/main.go:40");
	made_up_add(m, &(struct made_up_sample){PROFILE_SYSCALL, NULL, NULL, 500, 0},
		    "main.main /src/main.go:11;main.worker /src/main.go:41;main.write "
		    "/src/io.go:5");
}

void made_up_grown(struct made_up *m)
{
	made_up_init(m, "grown", 5000);
	made_up_add(m,
		    &(struct made_up_sample){PROFILE_WAITING, "chan receive", "user=ann", 6000, 0},
		    "main.main /src/main.go:10;main.handler /src/main.go:20;main.query "
		    "/src/db.go:7");
	made_up_add(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, "user=bob", 1000, 0},
		    "main.main /src/main.go:10;main.handler /src/main.go:21;"
		    "main.compute /src/cpu.go:3");
	made_up_add(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, NULL, 3000, 0},
		    "main.main /src/main.go:10;main.handler /src/main.go:22;main.cache "
		    "/src/cache.go:3");
}

void made_up_waits(struct made_up *m)
{
	static const char *const waits[] = {
		"sync.Mutex.Lock",
		"sync.RWMutex.RLock",
		"semacquire",
		"sync",
		"chan receive",
		"chan send (nil chan)",
		"select (no cases)",
		"sync.Cond.Wait",
		"sync.(*Cond).Wait",
		"IO wait",
		"sync.WaitGroup.Wait",
		"GC mark assist wait for work",
		"network",
		"sleep",
		"system goroutine wait",
		"GC worker (idle)",
		NULL,
	};

	made_up_init(m, "waits", 1000);
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++)
		made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, waits[i], NULL, 1000, 0},
			    "main.main");
}

void made_up_collector(struct made_up *m)
{
	made_up_init(m, "collector", 1000);
	made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, "semacquire", NULL, 3000, 0},
		    "main.main;main.allocate;runtime.mallocgc;runtime.gcStart;runtime.semacquire;"
		    "runtime.semacquire1;runtime.goparkunlock;runtime.gopark");
	made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, "sync", NULL, 500, 0},
		    "main.main;main.allocate;runtime.mallocgc;runtime.gcStart");
	made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, "semacquire", NULL, 1000, 0},
		    "main.main;main.replace;sync.(*RWMutex).Lock;sync.runtime_Semacquire;"
		    "runtime.semacquire1;runtime.goparkunlock;runtime.gopark");
}

void made_up_idle(struct made_up *m)
{
	made_up_init(m, "idle", 1000);
	made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, "sleep", NULL, 4990, 0},
		    "main.main /src/main.go:10;time.Sleep runtime/time.go:361");
	made_up_add(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, NULL, 10, 0},
		    "main.main /src/main.go:11");
}

void made_up_crowd(struct made_up *m)
{
	made_up_init(m, "crowd", 1000);
	made_up_add(m, &(struct made_up_sample){PROFILE_WAITING, "sleep", NULL, 5000000, 0},
		    "main.main /src/main.go:10;time.Sleep runtime/time.go:361");
	made_up_add(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, NULL, 2000, 0},
		    "main.main /src/main.go:11");
}

void made_up_recursive(struct made_up *m)
{
	static const char *const stacks[] = {
		"main.main;main.walk",
		"main.main;main.walk;main.walk",
		"main.main;main.walk;main.walk;main.walk;main.visit",
	};

	made_up_init(m, "recursive", 1000);
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++)
		made_up_add(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, NULL, 1000, 0},
			    stacks[i]);
}

void made_up_bursts(struct made_up *m)
{
	static const char works[] = "main.main;main.compute /src/cpu.go:3";

	made_up_init(m, "bursts", 10000);
	made_up_add_from(m, &(struct made_up_sample){PROFILE_WAITING, "select", NULL, 10000, 10000},
			 0, 10000, "main.janitor;runtime.selectgo;runtime.gopark");
	for (uint64_t ms = 0; ms < 10000; ms += 2000) {
		made_up_add_from(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, NULL, 500, 0},
				 ms, ms + 500, works);
		made_up_add_from(m,
				 &(struct made_up_sample){PROFILE_WAITING, "sync.Mutex.Lock",
							  "user=ann", 5000, 0, 480},
				 ms + 500, ms + 1000,
				 "main.main;main.handler /src/main.go:20;main.store "
				 "/src/store.go:7;sync.(*Mutex).Lock");
		made_up_add_from(m, &(struct made_up_sample){PROFILE_RUNNING, NULL, NULL, 1000, 0},
				 ms + 1000, ms + 2000, works);
	}
}

void made_up_hour(struct made_up *m)
{
	made_up_init(m, "hour", 3600000);
	for (uint64_t s = 0; s < 3600; s++) {
		char stack[128];

		snprintf(stack, sizeof(stack), "main.main;main.leak;main.part%u",
			 (unsigned int)(s / 72));
		made_up_add_from(m,
				 &(struct made_up_sample){PROFILE_WAITING, "chan send", NULL,
							  1000 * (10 + s / 36), 0},
				 s * 1000, s * 1000 + 1000, stack);
	}
}

void made_up_nothing(struct made_up *m)
{
	made_up_init(m, "nothing", 1000);
	must(!profile_add_comment(m->profile, "filter: --wait 'nosuch'"));
}

void made_up_hostile(struct made_up *m)
{
	made_up_init(m, "</script><script>window.hacked=1</script>", 1000);
	must(!profile_add_comment(m->profile, "<img src=x onerror=window.hacked=2>"));
	made_up_add(m,
		    &(struct made_up_sample){PROFILE_WAITING, "<!--<script>",
					     "</script>=<b>\"'&\xff state=mine wait=mine", 600, 0},
		    "main.<script>alert(1)</script>;main.__proto__;main.\xff\xfe bad.go:1");
	made_up_add(m,
		    &(struct made_up_sample){PROFILE_RUNNING, NULL, "__proto__=constructor", 400,
					     0},
		    "main.a\nb\tc\\\"'&amp;\u2028;constructor;[running]");
}
