/* The files that `gospect report` reads, and the tables that it prints. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <gospect/recorded.h>
#include <gospect/requests.h>

#include "base/strbuf.h"
#include "cli/cli.h"

/* A recorded file of any kind: its bytes, or a profile. */
struct report_file {
	const char *path; /* how messages name it */
	const char *exe;  /* --exe, or NULL */
	const uint8_t *bytes;
	size_t size;
	uint8_t *read;                   /* `bytes`, if this struct owns them; else NULL */
	struct gospect_profile *profile; /* NULL: not made yet */
};

/* Reads the whole file; the caller frees *ret. */
struct error *report_read_bytes(const char *path, uint8_t **ret, size_t *ret_size) must_check;
struct error *report_file_open(const char *path, const char *exe,
			       struct report_file *ret) must_check;
void report_file_release(struct report_file *file);
#define _cleanup_report_file_ __attribute__((cleanup(report_file_release)))

/* False for a profile without bytes. */
bool report_file_is_trace(const struct report_file *file);
/* Makes the profile, unless it exists. `how` has options of symbolization; NULL: none. Remarks
 * about the file are printed. */
struct error *report_file_read(struct report_file *file,
			       const struct gospect_recorded_options *how) must_check;
/* Adds the file's name to an error about its contents. Consumes err; NULL stays NULL. */
struct error *report_file_error(const struct report_file *file, struct error *err) must_check;

/* A profile's time, grouped by a property of its samples. */
struct report_table {
	enum gospect_group_key key;
	const char *label; /* of GOSPECT_GROUP_LABEL */
	size_t rows;       /* at most; 0: all */
};

/* Needs the file's profile, or a trace and the key GOSPECT_GROUP_ROOT. */
struct error *report_write_table(const struct report_file *file, const struct report_table *table,
				 FILE *out) must_check;
struct error *report_write_json(const struct report_file *file, const struct report_table *table,
				FILE *out) must_check;
/* The kind of rows: "START FUNCTION". */
const char *report_heading(const struct report_table *table);

/* Writes how two profiles differ, the largest difference first; as JSON or as a table. */
struct error *report_write_diff(const struct report_file *before, const struct report_file *after,
				const struct report_table *table, bool json, FILE *out) must_check;

/* The requests of a trace, the slowest first; or, with --per, their groups. */
struct report_requests {
	const char *heading; /* the heading of the groups */
	const char *per;     /* the label of their groups, or NULL */
	bool by_function;    /* groups by function, not by a label */
	bool by_trace;       /* a row is a trace id's */
	bool groups;
	bool paths;       /* critical paths, not places */
	bool allocations; /* also what was allocated */
	size_t rows;      /* at most; 0: all */
};

struct error *report_write_requests(const struct gospect_requests *requests,
				    const struct report_requests *how, FILE *out) must_check;
struct error *report_write_requests_json(const struct gospect_requests *requests,
					 const struct report_requests *how, FILE *out) must_check;

/* A profile of the runtime's own: each row's part of the bytes or of the time, and of how many
 * objects or events. By function, rows are in the order of what the function itself has. */
struct error *report_write_values(const struct report_file *file, const struct report_table *table,
				  FILE *out) must_check;
/* Whether report_write_table() writes it so. */
bool report_has_values(const struct report_file *file);
/* Whether its times are bytes. */
bool report_has_bytes(const struct report_file *file);

/* "12.3 MiB": at most 8 characters. */
const char *report_bytes(uint64_t bytes, char text[static 16]);
/* "12.3 s", "45 ms": at most 8 characters. */
const char *report_time(uint64_t ns, char text[static 16]);
/* Adds a place, "FUNCTION:LINE"; of a Perfetto trace no line is known. */
void report_add_place(struct strbuf *line, const char *function, int number);
/* Adds how long a wait had lasted before the trace, if a minute or longer, as the runtime does. */
void report_add_before(struct strbuf *line, uint64_t waited_ns);

#endif
