#include "perfdata/perfdata.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/code.h"
#include "image/debug_files.h"
#include "perfdata/chains.h"
#include "perfdata/perf_rewrite.h"
#include "perfdata/process_table.h"
#include "perfdata/remarks.h"
#include "profile/profile_symbols.h"

/* The program's process is in the upper bits of a stack word, so that words of several differ; it
 * is 0 for the first that has samples: its words are its addresses. */
#define TAG_SHIFT 48
#define MAX_TAG 0x7fffu /* all others: without symbols */
#define MAX_FILES_SAID 5
#define MAX_PERIOD (1ull << 50)
/* An unwinder has some 150 KB: a file can name any number of processes. */
#define MAX_UNWINDERS 1024

struct reading {
	const atomic_int *cancel; /* or NULL */
	const struct perf_file *file;
	struct profile *profile;
	struct perf_rewriter *rewriter; /* NULL: the samples become the profile */
	struct perfdata_remarks *remarks;
	struct process_table table;
	struct programs programs;
	struct chains chains;
	const struct recorded_process **tags;
	size_t tag_count;
	size_t tag_capacity;
	struct recorded_process *unwinding[MAX_UNWINDERS]; /* those that have an unwinder */
	size_t next_unwinder;
	uint64_t first_time, last_time;
	uint64_t timed;   /* samples of events that count time */
	uint64_t idle;    /* samples of idle CPUs */
	uint64_t strange; /* samples that do not match the header */
	size_t files_reported;
	size_t files_unreported;
};

static void reading_release(struct reading *r)
{
	chains_release(&r->chains);
	process_table_release(&r->table);
	programs_release(&r->programs);
	profile_destroy(r->profile);
	free(r->tags);
}

/* Registers that x86 does not have: asm/perf_regs.h. */
#define ARM64_REGISTERS 0x1ff000000ull

/* Where the file does not say (perf did not finish it), the registers do; without, it is taken to
 * be this machine's. */
static enum machine machine_of(const struct perf_file *f)
{
	struct utsname here;
	const char *name = f->machine;
	uint64_t registers = 0;

	for (size_t i = 0; i < f->attr_count; i++)
		registers |= f->attrs[i].registers;
	if (!*name && registers)
		return registers & ARM64_REGISTERS ? MACHINE_ARM64 : MACHINE_AMD64;
	if (!*name && !uname(&here))
		name = here.machine;
	return !strcmp(name, "aarch64") || !strcmp(name, "arm64") ? MACHINE_ARM64 : MACHINE_AMD64;
}

static struct error *check_machine(const struct perf_file *f)
{
	static const char *const known[] = {"", "x86_64", "aarch64", "arm64"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(f->machine, known[i]))
			return NULL;
	return error_format(
		ERROR_UNSUPPORTED,
		"it comes from a machine of architecture \"%s\"; gospect reads x86_64 and aarch64",
		f->machine);
}

/* Whether a period is nanoseconds of CPU time. */
static bool is_time(const struct perf_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && (attr->config == PERF_COUNT_SW_CPU_CLOCK ||
						    attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

static const char *event_name(const struct perf_attr *attr, char name[static 64])
{
	static const char *const hardware[] = {"cycles",
					       "instructions",
					       "cache-references",
					       "cache-misses",
					       "branches",
					       "branch-misses",
					       "bus-cycles",
					       "stalled-cycles-frontend",
					       "stalled-cycles-backend",
					       "ref-cycles"};
	static const char *const software[] = {"cpu-clock",       "task-clock",
					       "page-faults",     "context-switches",
					       "cpu-migrations",  "minor-faults",
					       "major-faults",    "alignment-faults",
					       "emulation-faults"};
	uint32_t config = attr->config;

	if (attr->type == PERF_TYPE_HARDWARE && config < ARRAY_SIZE(hardware))
		return hardware[config];
	if (attr->type == PERF_TYPE_SOFTWARE && config < ARRAY_SIZE(software))
		return software[config];
	snprintf(name, 64, "event %u:0x%" PRIx64, attr->type, attr->config);
	return name;
}

/* Says once of each file why the stacks of its processes are not made anew. */
static struct error *say_file(struct reading *r, const struct recorded_process *p,
			      struct recorded_file *file)
{
	static const char *const states[] = {
		[FILE_MISSING] = "does not exist here",
		[FILE_OTHER_BUILD] = "is not the build that was recorded",
		[FILE_UNREADABLE] = "cannot be read",
	};
	const char *why = file->why ? file->why->message : states[file->state];

	if (file->said || !why)
		return NULL;
	file->said = true;
	if (r->files_reported >= MAX_FILES_SAID) {
		r->files_unreported++;
		return NULL;
	}
	r->files_reported++;
	return perfdata_remark(r->remarks,
			       "%s (process %u, %s) %s: its stacks stay as perf recorded them",
			       file->path, p->pid, *p->comm ? p->comm : "?", why);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static struct elf_file *open_file(const struct reading *r, const struct recorded_file *file)
{
	struct elf_file *elf = NULL;
	int fd = file && file->state == FILE_USABLE ? regular_file_open(file->found) : -1;

	if (fd < 0 || error_dropped(elf_file_open(fd, file->path, &elf)))
		return NULL;
	if (elf_file_machine(elf) == r->programs.machine)
		return elf;
	elf_file_close(elf);
	return NULL;
}

/* The kernel's vDSO is no file; ours will do when it is the same. */
static struct elf_file *open_vdso(const struct reading *r)
{
	const char *id = perf_file_build_id(r->file, "[vdso]");
	struct elf_file *elf = NULL;
	int fd = id ? debug_file_own_vdso() : -1;

	if (fd < 0 || error_dropped(elf_file_open(fd, "[vdso]", &elf)))
		return NULL;
	if (!strcmp(elf_file_build_id(elf), id))
		return elf;
	elf_file_close(elf);
	return NULL;
}

static struct error *add_module(struct reading *r, struct recorded_process *p,
				const struct recorded_map *map, const struct recorded_file *file)
{
	char name[64];
	struct module_range range = {map->start, map->end, map->offset, map->path, ""};
	struct elf_file *elf = strcmp(map->path, "[vdso]") ? open_file(r, file) : open_vdso(r);
	struct error *err;

	if (!elf) {
		snprintf(name, sizeof(name), "[%.60s]", base_name(map->path));
		range.path = map->path[0] == '[' ? map->path : name;
	}
	err = modules_add_file(p->modules, &range, elf);
	if (err && err->code == ERROR_NO_MEMORY)
		return err;
	error_destroy(err);
	return NULL;
}

static struct error *look_at_map(struct reading *r, struct recorded_process *p,
				 const struct recorded_map *map)
{
	struct recorded_file *file = NULL;
	struct error *err = NULL;

	if (map->path[0] == '/' && map->path[1] != '/') {
		file = programs_file(&r->programs, map->path);
		if (!file)
			return &error_no_memory;
		if (!p->program)
			err = programs_go(&r->programs, map, &p->program);
		if (!err && (file->why || (file->state != FILE_USABLE && p->file == map->path)))
			err = say_file(r, p, file);
		if (err)
			return err;
	}
	return add_module(r, p, map, file);
}

static void drop_unwinder(struct recorded_process *p)
{
	running_unwinder_destroy(take_ptr(p->unwinder));
	stacks_destroy(take_ptr(p->stacks));
}

static struct error *make_unwinder(struct reading *r, struct recorded_process *p)
{
	static const struct pclntab none;
	const struct pclntab *functions = p->program ? &p->program->image->functions : &none;

	struct recorded_process **place = &r->unwinding[r->next_unwinder++ % MAX_UNWINDERS];

	if (*place)
		drop_unwinder(*place);
	*place = p;
	p->stacks = stacks_create(functions, r->programs.machine);
	if (p->stacks)
		p->unwinder = running_unwinder_create(p->stacks, functions, r->programs.machine,
						      p->modules);
	return p->unwinder ? NULL : &error_no_memory;
}

static struct error *meet(struct reading *r, struct recorded_process *p)
{
	p->met = true;
	p->tag = r->tag_count < MAX_TAG ? r->tag_count : MAX_TAG;
	if (p->tag == MAX_TAG)
		return modules_of_files(r->programs.machine, &p->modules);
	if (!array_reserve(&r->tags, &r->tag_capacity, r->tag_count + 1))
		return &error_no_memory;
	r->tags[r->tag_count++] = p;
	return modules_of_files(r->programs.machine, &p->modules);
}

/* Before a sample of the process: its mappings so far. */
static struct error *prepare(struct reading *r, struct recorded_process *p)
{
	const struct recorded_program *before = p->program;
	struct error *err = p->met ? NULL : meet(r, p);

	for (; !err && p->maps && p->maps_seen < p->maps->count; p->maps_seen++)
		if (p->maps->items[p->maps_seen].end)
			err = look_at_map(r, p, &p->maps->items[p->maps_seen]);
	if (before != p->program)
		drop_unwinder(p);
	return err;
}

static struct error *add_label(struct profile *p, struct profile_label *labels, uint32_t *count,
			       const char *key, const char *value)
{
	struct profile_label *label = &labels[(*count)++];

	label->key = intern_string(&p->strings, key);
	label->value = intern_string(&p->strings, value);
	return label->key == INTERN_FAILED || label->value == INTERN_FAILED ? &error_no_memory
									    : NULL;
}

static struct error *add_sample(struct reading *r, const struct recorded_process *p,
				const struct perf_attr *attr, const struct recorded_sample *s)
{
	uint64_t period = s->period < MAX_PERIOD ? s->period : MAX_PERIOD;
	struct profile_label labels[3];
	struct profile_sample sample = {.state = PROFILE_RUNNING, .labels = labels};
	char number[16], name[64];
	struct error *err = NULL;

	for (size_t i = 0; i < r->chains.count; i++)
		if (!stack_pc_is_pseudo(r->chains.words[i]))
			r->chains.words[i] |= (uint64_t)p->tag << TAG_SHIFT;
	sample.pcs = r->chains.words;
	sample.depth = r->chains.count;
	sample.count = is_time(attr) ? 1 : period;
	sample.wall_ns = sample.cpu_ns = is_time(attr) ? period : 0;
	r->timed += is_time(attr);
	snprintf(number, sizeof(number), "%u", p->pid);
	if (r->file->attr_count > 1)
		err = add_label(r->profile, labels, &sample.label_count, "event",
				event_name(attr, name));
	if (!err)
		err = add_label(r->profile, labels, &sample.label_count, "pid", number);
	if (!err && *p->comm)
		err = add_label(r->profile, labels, &sample.label_count, "process", p->comm);
	return err ? err : profile_add(r->profile, &sample);
}

/* `p` is NULL for an idle CPU. */
static void rewrite_sample(struct reading *r, const struct recorded_process *p,
			   const struct perf_attr *attr, const struct perf_record *record,
			   const struct recorded_sample *s)
{
	const struct stack words = {.pcs = r->chains.words, .count = p ? r->chains.count : 0};

	perf_rewriter_sample(r->rewriter, record, attr, s, &words,
			     p && p->program ? &p->program->image->functions : NULL);
}

/* The process whose mappings apply to a sample. Processes beyond the limit share one without
 * mappings. */
static struct recorded_process *mapped_process(struct reading *r, struct recorded_process *p)
{
	if (p->met || r->tag_count < MAX_TAG)
		return p;
	p->tag = MAX_TAG;
	return process_table_get(&r->table, UINT32_MAX);
}

static struct error *take_sample(struct reading *r, const struct perf_record *record)
{
	const struct perf_attr *attr = perf_file_attr(r->file, record);
	struct recorded_process *p, *mapped;
	struct recorded_sample s;
	struct error *err;

	if (!attr || !perf_sample_parse(attr, r->programs.machine, record, &s)) {
		r->strange++;
		return NULL;
	}
	if (!s.pid || s.pid == UINT32_MAX) {
		r->idle++;
		if (r->rewriter)
			rewrite_sample(r, NULL, attr, record, &s);
		return NULL;
	}
	if (record->time && (!r->first_time || record->time < r->first_time))
		r->first_time = record->time;
	r->last_time = record->time > r->last_time ? record->time : r->last_time;
	p = process_table_get(&r->table, s.pid);
	mapped = p ? mapped_process(r, p) : NULL;
	if (!mapped)
		return &error_no_memory;
	err = prepare(r, mapped);
	if (!err && !mapped->unwinder && chains_unwind(&r->chains, &s))
		err = make_unwinder(r, mapped);
	if (!err)
		err = chains_make(&r->chains, mapped, &s);
	if (!err && r->rewriter)
		rewrite_sample(r, mapped, attr, record, &s);
	else if (!err)
		err = add_sample(r, p, attr, &s);
	return err;
}

static struct error *take_all(struct reading *r)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < r->file->count; i++) {
		const struct perf_record *record = &r->file->records[i];

		err = cancel_check(r->cancel);
		if (err)
			break;
		if (record->type == PERF_RECORD_SAMPLE)
			err = take_sample(r, record);
		else
			err = process_table_take(&r->table, record);
		if (r->rewriter && record->type != PERF_RECORD_SAMPLE)
			perf_rewriter_copy(r->rewriter, record);
	}
	return err;
}

static size_t frames_of(const void *functions, uint64_t word, struct go_frame *ret, size_t max)
{
	static const struct pclntab none;
	const struct reading *r = functions;
	size_t tag = (word & ~STACK_PC_EXACT) >> TAG_SHIFT;
	const struct recorded_process *p = tag < r->tag_count ? r->tags[tag] : NULL;
	struct code code;

	if (!p)
		return 0;
	code.functions = p->program ? &p->program->image->functions : &none;
	code.modules = p->modules;
	return code_frames(&code, word & ~((uint64_t)MAX_TAG << TAG_SHIFT), ret, max);
}

static struct error *add_mappings(struct reading *r, const struct recorded_process *p)
{
	uint64_t tag = (uint64_t)p->tag << TAG_SHIFT;
	struct error *err = NULL;

	for (size_t i = 0; !err && p->maps && i < p->maps->live; i++) {
		const struct recorded_map *map = &p->maps->items[p->maps->order[i]];
		const char *id = perf_file_build_id(r->file, map->path);
		bool is_go = p->program && p->program->file->path == map->path;
		struct profile_mapping mapping = {
			.start = map->start | tag,
			.end = map->end | tag,
			.offset = map->offset,
			.file = (char *)map->path,
			.build_id = (char *)(is_go ? p->program->file->build_id : id),
		};

		/* Only files with samples have their build id in a recording. */
		if (id || is_go)
			err = profile_add_mapping(r->profile, &mapping);
	}
	return err;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Truncated stacks of this part are worth a remark: many callers are missing. */
#define TRUNCATED_PART 0.05
/* The limit of perf record (PERF_SAMPLE_STACK_USER: 16 bits, in words of 8 bytes). */
#define MOST_STACK 65528

/* The size of stacks that would do: 8 KB, perf's own default, or four times what was too little. */
static struct error *must_check remark_truncated(struct reading *r)
{
	const struct chain_counts *c = &r->chains.counts;
	uint64_t all = c->whole + c->truncated, cut = c->truncated - c->switched, size = 0, enough;

	for (size_t i = 0; i < r->file->attr_count; i++)
		if (r->file->attrs[i].stack_size > size)
			size = r->file->attrs[i].stack_size;
	if (!size || size >= MOST_STACK || cut <= TRUNCATED_PART * all)
		return NULL;
	enough = size < 8192 ? 8192 : 4 * size > MOST_STACK ? MOST_STACK : 4 * size;
	return perfdata_remark(r->remarks,
			       "%lu of %lu Go stacks are truncated: perf recorded %lu bytes of "
			       "each; record with perf record --call-graph dwarf,%lu",
			       cut, all, size, enough);
}

/* Remarks on parts that are missing or cannot be trusted. */
static struct error *remark_defects(struct reading *r)
{
	const struct perf_file *f = r->file;
	const struct chain_counts *c = &r->chains.counts;
	struct error *err = NULL;

	if (f->unfinished)
		err = perfdata_remark(
			r->remarks,
			"perf did not finish this file: gospect reads what there is, without "
			"build ids to check programs");
	else if (f->cut)
		err = perfdata_remark(
			r->remarks,
			"this file is truncated or corrupt: gospect reads what there is");
	if (!err && f->too_large)
		err = perfdata_remark(
			r->remarks,
			"this file is too large when decompressed: gospect ignores its end");
	if (!err && r->table.maps_left_out)
		err = perfdata_remark(
			r->remarks,
			"too many mappings of code: %zu are ignored, and their code is shown as "
			"unknown",
			r->table.maps_left_out);
	if (!err && f->lost)
		err = perfdata_remark(r->remarks, "perf lost %" PRIu64 " sample%s", f->lost,
				      plural(f->lost));
	if (!err && r->programs.exe && !r->programs.exe_used)
		err = perfdata_remark(r->remarks,
				      "--exe %s matches no program in this file: ignored",
				      r->programs.exe);
	if (!err && r->strange)
		err = perfdata_remark(r->remarks,
				      "%" PRIu64
				      " sample%s ignored: they do not match the header of the file",
				      r->strange, plural(r->strange));
	if (!err && r->files_unreported)
		err = perfdata_remark(
			r->remarks,
			"%zu more programs are missing on this machine or are other builds; their functions have no names",
			r->files_unreported);
	if (!err && c->no_caller)
		err = perfdata_remark(
			r->remarks,
			"%" PRIu64 " of %" PRIu64
			" stacks by frame pointers lack their innermost caller, shown "
			"as %s; perf record --call-graph dwarf has it",
			c->no_caller, c->by_chain, r->rewriter ? "[unknown]" : "[caller unknown]");
	return err ? err : remark_truncated(r);
}

/* All that is remarked is a comment of the profile as well. */
static struct error *add_comments(struct reading *r)
{
	const struct perf_file *f = r->file;
	const struct chain_counts *c = &r->chains.counts;
	char name[64];
	struct error *err =
		profile_add_comment(r->profile, "perf.data%s%s%s%s, %" PRIu64 " samples, %s%s",
				    *f->host ? " of " : "", f->host, *f->version ? ", perf " : "",
				    f->version, c->samples, event_name(f->attrs, name),
				    f->attr_count > 1 ? " and others" : "");

	if (!err && c->whole + c->truncated + c->unknown)
		err = profile_add_comment(r->profile,
					  "stacks of Go: %" PRIu64 " whole, %" PRIu64
					  " truncated, %" PRIu64 " unknown",
					  c->whole, c->truncated, c->unknown);
	if (!err && c->switched)
		err = profile_add_comment(
			r->profile,
			"%" PRIu64 " of the truncated stacks end where the thread changed its "
			"stack, of which perf records one",
			c->switched);
	if (!err && c->caller_found)
		err = profile_add_comment(r->profile,
					  "%" PRIu64 " callers come from the link register",
					  c->caller_found);
	if (!err && c->doubled)
		err = profile_add_comment(r->profile,
					  "%" PRIu64
					  " stacks showed a caller twice; gospect removed the copy",
					  c->doubled);
	if (!err && r->idle)
		err = profile_add_comment(r->profile, "%" PRIu64 " samples of idle CPUs ignored",
					  r->idle);
	for (size_t i = 0; !err && i < r->remarks->count; i++)
		err = profile_add_comment(r->profile, "%s", r->remarks->lines[i]);
	return err;
}

static struct error *describe(struct reading *r)
{
	struct profile *p = r->profile;
	uint64_t count, wall_ns;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < r->tag_count; i++)
		err = add_mappings(r, r->tags[i]);
	if (!err)
		err = remark_defects(r);
	if (!err)
		err = add_comments(r);
	if (err)
		return err;
	profile_totals(p, &count, &wall_ns);
	p->period_ns = r->timed ? wall_ns / r->timed : 0;
	p->duration_ns = r->last_time - r->first_time + p->period_ns;
	for (size_t i = 0; i < r->tag_count && !p->go_version; i++)
		if (r->tags[i]->program)
			p->go_version = strdup(r->tags[i]->program->image->info.version);
	if (r->tag_count != 1)
		p->command = strdup("perf.data");
	else if (asprintf(&p->command, "%s (pid %u)", r->tags[0]->comm, r->tags[0]->pid) < 0)
		p->command = NULL;
	return p->command ? NULL : &error_no_memory;
}

static struct error *take_samples(struct reading *r)
{
	struct error *err = take_all(r);

	if (err || r->chains.counts.samples)
		return err;
	return error_format(ERROR_CORRUPT, r->idle ? "all its samples are of idle CPUs"
						   : "it is a perf.data file without samples");
}

static struct error *read_samples(struct reading *r, struct profile_file *ret)
{
	const struct symbol_source source = {frames_of, r, r->cancel};
	struct error *err = take_samples(r);

	if (!err)
		err = describe(r);
	if (!err)
		err = symbols_create(r->profile, &source, &ret->symbols);
	if (!err)
		ret->profile = take_ptr(r->profile);
	return err;
}

static struct error *begin_reading(struct reading *r, const void *bytes, size_t size,
				   const char *exe, struct perf_file *file)
{
	struct error *err = perf_file_read(bytes, size, file);

	if (!err)
		err = check_machine(file);
	r->file = r->programs.perf = file;
	r->programs.exe = exe;
	r->programs.machine = r->chains.machine = machine_of(file);
	return err;
}

struct error *perfdata_read(const void *bytes, size_t size, const char *exe,
			    const atomic_int *cancel, struct profile_file *ret,
			    struct perfdata_remarks *remarks)
{
	_cleanup_perf_file_ struct perf_file file = {0};
	_cleanup_(reading_release) struct reading r = {.remarks = remarks, .cancel = cancel};
	struct error *err = begin_reading(&r, bytes, size, exe, &file);

	if (err)
		return err;
	r.profile = profile_create();
	return r.profile ? read_samples(&r, ret) : &error_no_memory;
}

struct error *perfdata_rewrite(const void *bytes, size_t size, const char *exe,
			       const atomic_int *cancel, FILE *out,
			       struct perfdata_remarks *remarks)
{
	_cleanup_perf_file_ struct perf_file file = {0};
	_cleanup_(perf_rewriter_release) struct perf_rewriter writer = PERF_REWRITER_INIT(&file);
	_cleanup_(reading_release) struct reading r = {.rewriter = &writer,
						       .remarks = remarks,
						       .cancel = cancel};
	struct error *err = begin_reading(&r, bytes, size, exe, &file);

	if (!err)
		err = take_samples(&r);
	r.strange += writer.left_out;
	/* Then the file would be none that can be read. */
	if (!err && writer.left_out >= r.chains.counts.samples)
		err = error_format(ERROR_CORRUPT, "it is a perf.data file without samples");
	if (!err)
		err = remark_defects(&r);
	if (!err && file.has_aux)
		err = perfdata_remark(remarks, "the data of a hardware tracer is left out");
	return err ? err : perf_rewriter_write(&writer, out);
}
