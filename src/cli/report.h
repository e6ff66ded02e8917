/* The files that `gospect report` reads, and the tables that it prints. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <gospect/recorded.h>
#include <gospect/requests.h>

#include "base/strbuf.h"
#include "cli/cli.h"

/* A recording, of whatever kind: its bytes, or a profile that is there already. */
struct report_file {
	const char *path; /* how messages name it */
	const char *exe;  /* --exe, or NULL */
	const uint8_t *bytes;
	size_t size;
	uint8_t *read;                   /* the same, where they were read; NULL: another's */
	struct gospect_profile *profile; /* NULL: not made yet */
};

/* The whole of a file; the caller frees *ret. */
struct error *report_read_bytes(const char *path, uint8_t **ret, size_t *ret_size) must_check;
struct error *report_file_open(const char *path, const char *exe,
			       struct report_file *ret) must_check;
void report_file_release(struct report_file *file);
#define _cleanup_report_file_ __attribute__((cleanup(report_file_release)))

/* False of a profile without bytes. */
bool report_file_is_trace(const struct report_file *file);
/* Makes the profile, unless it exists. `how` has options of symbolization; NULL: none. Remarks
 * about the file are printed. */
struct error *report_file_read(struct report_file *file,
			       const struct gospect_recorded_options *how) must_check;
/* An error in the contents of a file, with its name. Consumes err; NULL stays NULL. */
struct error *report_file_error(const struct report_file *file, struct error *err) must_check;

/* A profile's time, grouped by a property of its samples. */
struct report_table {
	enum gospect_group_key key;
	const char *label; /* of GOSPECT_GROUP_LABEL */
	size_t rows;       /* at most; 0: all */
};

/* Its profile was read, or it is a trace and the key is GOSPECT_GROUP_ROOT. */
struct error *report_write_table(const struct report_file *file, const struct report_table *table,
				 FILE *out) must_check;
struct error *report_write_json(const struct report_file *file, const struct report_table *table,
				FILE *out) must_check;
/* The kind of rows: "START FUNCTION". */
const char *report_heading(const struct report_table *table);

/* How two profiles differ, the greatest difference first; as JSON, or as a table. */
struct error *report_write_diff(const struct report_file *before, const struct report_file *after,
				const struct report_table *table, bool json, FILE *out) must_check;

/* The requests of a trace, the slowest first; or, with --per, their groups. */
struct report_requests {
	const char *heading; /* the heading of the groups */
	const char *per;     /* the label of their groups, or NULL */
	bool by_function;    /* groups by function, not by a label */
	bool groups;
	size_t rows; /* at most; 0: all */
};

struct error *report_write_requests(const struct gospect_requests *requests,
				    const struct report_requests *how, FILE *out) must_check;
struct error *report_write_requests_json(const struct gospect_requests *requests,
					 const struct report_requests *how, FILE *out) must_check;

/* "12.3 s", "45 ms": at most 8 characters. */
const char *report_time(uint64_t ns, char text[static 16]);
/* Adds for how long it has been so before the trace, from a minute on, as the runtime does. */
void report_add_before(struct strbuf *line, uint64_t waited_ns);

#endif
