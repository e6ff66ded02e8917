/*
 * Samples aggregated by stack, and the formats that they are written in.
 *
 * A profile holds raw words of stacks (image/pclntab.h); they are symbolized once, when a format is
 * written. It knows nothing about sampling: its caller says how much time a sample stands for.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/intern.h"
#include "base/map.h"
#include "image/code.h"
#include "profile/goroutine_rows.h"
#include "profile/request_paths.h"
#include "profile/source_fragments.h"
#include "profile/timeline.h"

enum profile_state { PROFILE_RUNNING, PROFILE_RUNNABLE, PROFILE_SYSCALL, PROFILE_WAITING };
#define PROFILE_STATES 4

/* "running", "runnable", "syscall", "waiting" */
const char *profile_state_name(enum profile_state state);

struct profile_label {
	uint32_t key; /* both in profile->strings */
	uint32_t value;
};

/* The total of all goroutines with this stack, state, wait reason and labels. */
struct profile_sample {
	const uint64_t *pcs; /* words of a stack, innermost first */
	uint32_t depth;
	uint32_t wait; /* the wait reason, in profile->strings; 0 when it was not waiting */
	enum profile_state state;
	const struct profile_label *labels; /* sorted by key */
	uint32_t label_count;
	uint64_t count;   /* times seen */
	uint64_t wall_ns; /* time that they stand for */
	uint64_t cpu_ns;
	uint64_t idle_count; /* the part of it by goroutines that were there during the whole
			      * recording */
	uint64_t idle_ns;
	uint64_t longest_ns;        /* how long one goroutine was there without a break, at most; 0:
				     * not known */
	uint64_t longest_goroutine; /* its id */
	uint32_t program;           /* of a merged profile: its frame in the symbols + 1; 0: none */
};

/*
 * The values of the runtime's own profiles, as their files have them. For tables and pages, the
 * count and wall_ns of a sample are two of them: the count, and the time or the bytes.
 */
#define PROFILE_MOST_VALUES 4

struct profile_value_type {
	uint32_t type; /* both in profile->strings: "inuse_space", "bytes" */
	uint32_t unit;
};

struct profile_values {
	int64_t values[PROFILE_MOST_VALUES];
	int64_t object_size; /* the numeric label `bytes` */
	bool has_size;
};

enum profile_unit { PROFILE_NANOSECONDS, PROFILE_BYTES };

struct profile_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	char *file;
	char *build_id; /* hexadecimal; "" when the file has none */
};

/* The meaning of a word in a merged profile. */
struct profile_word {
	uint64_t address; /* the address to look up */
	uint32_t mapping; /* its index in profile->mappings + 1; 0: none */
};

struct profile {
	struct intern strings;
	/* Samples, each with pcs and labels of its own. */
	struct profile_sample *samples;
	size_t count;
	size_t capacity;
	struct map index; /* hash of a sample's key -> its index + 1 */

	/* The runtime's own values; without types, samples are looks at goroutines and their times.
	 */
	struct profile_value_type types[PROFILE_MOST_VALUES];
	size_t type_count;
	struct profile_value_type period_type;
	uint32_t preferred;            /* the type that is shown first, in strings; 0: not said */
	struct profile_values *values; /* of each of `samples` */
	size_t value_capacity;
	enum profile_unit unit;   /* of wall_ns */
	const char *runtime_name; /* of the runtime's own profile: "mutex"; NULL: not known */

	/* The facts about the profile; the strings belong to it. */
	char *command;    /* of the target, for titles */
	char *go_version; /* "go1.27.2" */
	uint64_t time_ns; /* wall clock time of its start, since 1970 */
	uint64_t duration_ns;
	uint64_t period_ns; /* of one tick; of values: as their file has it */
	/* Comments on how exact it is: rate, missed ticks, torn reads ... */
	char **comments;
	size_t comment_count;
	size_t comment_capacity;
	struct profile_mapping *mappings;
	size_t mapping_count;
	size_t mapping_capacity;
	struct timeline timeline;         /* rows are indices of samples; empty: not known */
	struct goroutine_rows goroutines; /* empty: not known */
	struct request_paths requests;    /* likewise */
	struct source_fragments sources;  /* from sources_find(); empty: not requested */
	/* For a profile of several programs (profile/merge.h): words are numbers behind the pseudo
	 * words, and these are their meanings. Empty: words are addresses. */
	struct profile_word *words;
	size_t word_count;
	size_t word_capacity;
};

struct profile *profile_create(void); /* NULL: no memory */
void profile_destroy(struct profile *p);
/* Adds to the sample with the same stack, state, wait reason and labels, or creates it. Copies the
 * words and labels; their strings must be in p->strings. */
struct error *profile_add(struct profile *p, const struct profile_sample *sample) must_check;
/* Likewise; *ret is its index in p->samples. */
struct error *profile_add_at(struct profile *p, const struct profile_sample *sample,
			     uint32_t *ret) must_check;
/* Likewise, but always creates a new sample. */
struct error *profile_append(struct profile *p, const struct profile_sample *sample) must_check;
/* Likewise, of a profile that has types of values. */
struct error *profile_append_values(struct profile *p, const struct profile_sample *sample,
				    const struct profile_values *values) must_check;
/* Adds a type of values. */
struct error *profile_add_type(struct profile *p, const char *type, const char *unit) must_check;
/* The index of the sample with the same stack, state, wait reason and labels; false: there is
 * none. */
bool profile_find(const struct profile *p, const struct profile_sample *sample, uint32_t *ret);
struct error *profile_add_comment(struct profile *p, const char *format, ...) must_check
	__attribute__((format(printf, 2, 3)));
/* Subtracts the values of the samples with the same stack, labels and size of objects in `before`,
 * which has the same types. Samples that have no value left are dropped. Nothing can be added
 * afterwards. */
struct error *profile_subtract(struct profile *p, const struct profile *before) must_check;
/* Copies the strings of the mapping. */
struct error *profile_add_mapping(struct profile *p,
				  const struct profile_mapping *mapping) must_check;
/* Likewise, but always behind all others. */
struct error *profile_append_mapping(struct profile *p,
				     const struct profile_mapping *mapping) must_check;
/* For a word that is not a pseudo word. */
struct profile_word profile_word_of(const struct profile *p, uint64_t pc);
/* Keeps only the samples with this label; nothing can be added afterwards. If any is left out, so
 * are the rows of goroutines. */
void profile_keep_label(struct profile *p, const char *key, const char *value);
/* The total over all samples. */
void profile_totals(const struct profile *p, uint64_t *ret_count, uint64_t *ret_wall_ns);

/* A symbolized stack word: its frames, innermost first. */
struct profile_location {
	const struct go_frame *frames;
	size_t count;
};

/*
 * Each distinct word of a profile's stacks, symbolized once. Without functions (--raw, NULL) only
 * pseudo words have frames. Its text is valid UTF-8 and its own: the function table may be freed.
 */
struct profile_symbols;
struct error *profile_symbolize(const struct profile *p, const struct pclntab *functions,
				struct profile_symbols **ret) must_check;
/* Likewise, including functions of C code. */
struct error *profile_symbolize_code(const struct profile *p, const struct code *code,
				     const atomic_int *cancel,
				     struct profile_symbols **ret) must_check;
void profile_symbols_destroy(struct profile_symbols *symbols);
/* NULL for a word that no stack of the profile has. */
const struct profile_location *profile_symbols_of(const struct profile_symbols *symbols,
						  uint64_t pc);

/*
 * The visible frames of a sample's stack, innermost first: with inlined calls, without wrappers and
 * runtime.goexit, up to the goroutine's start function. A goroutine that has not run yet shows the
 * wrapper of its go statement. *ret_count is at most `max`; outer frames that do not fit are left
 * out. A word outside all functions is "0x<pc>"; a stack without frames is "[unknown]".
 */
void profile_stack_frames(const struct profile_symbols *symbols,
			  const struct profile_sample *sample, struct go_frame *ret, size_t max,
			  size_t *ret_count);

/* A format is one file that defines one of these. */
struct profile_format {
	const char *name; /* -f NAME */
	bool binary;      /* not for a terminal */
	struct error *(*write)(const struct profile *p, const struct profile_symbols *symbols,
			       FILE *out);
};

extern const struct profile_format profile_format_pprof; /* .pb.gz .pprof */
/* Likewise, with the idle time of each sample: for profile_read(). It cannot be selected by
 * name. */
extern const struct profile_format profile_format_pprof_whole;
/* Likewise, with the types and labels of Go's CPU profile: running goroutines alone. */
extern const struct profile_format profile_format_pprof_cpu;
/* The text of the runtime's profiles with debug=1; of no others. */
extern const struct profile_format profile_format_debug_text;
extern const struct profile_format profile_format_folded; /* .folded */
extern const struct profile_format profile_format_folded_state;
extern const struct profile_format profile_format_speedscope; /* .json */
extern const struct profile_format profile_format_firefox;    /* .firefox.json */
extern const struct profile_format profile_format_html;       /* .html */

/* Writes the page of `after`, which shows what changed since `before`. */
struct error *html_write_diff(const struct profile *before,
			      const struct profile_symbols *before_symbols,
			      const struct profile *after,
			      const struct profile_symbols *after_symbols, FILE *out) must_check;

/* NULL: unknown name. */
const struct profile_format *profile_format_named(const char *name);

static inline void cleanup_profile(struct profile **p)
{
	profile_destroy(*p);
}
#define _cleanup_profile_ __attribute__((cleanup(cleanup_profile)))
static inline void cleanup_profile_symbols(struct profile_symbols **s)
{
	profile_symbols_destroy(*s);
}
#define _cleanup_profile_symbols_ __attribute__((cleanup(cleanup_profile_symbols)))

#endif
