/* What `gospect report` reads, and the tables that it prints. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <regex.h>

#include <json-c/json_types.h>

#include "cli/cli.h"
#include "profile/groups.h"
#include "profile/read.h"
#include "requests/requests.h"
#include "requests/spans.h"
#include "requests/summary.h"

/* What is wanted of a file. */
struct report_wish {
	const char *exe; /* --exe, or NULL */
	/* Of a trace: */
	const char *key;     /* its requests by the value of this label, or */
	const regex_t *root; /* by what they run under */
	const char *per;     /* the label by which they are grouped, or NULL */
	bool no_profile;     /* the requests are all that is wanted */
	bool labels;         /* the profile's samples have their labels */
	const char *label;   /* and only those with this one are wanted, or NULL */
	const char *value;
};

/* A recorded file, of whatever kind, as a profile; of a trace also what its goroutines did. */
struct report_file {
	const char *path;
	struct report_wish wish; /* set by who opens it */
	struct profile_file profile;
	bool is_trace;
	uint64_t duration_ns; /* of a trace */
	struct span_tables tables;
	struct summary summary;
	struct requests requests; /* what the wish says */
};

/* The whole of a file; the caller frees *ret. */
struct error *report_read_bytes(const char *path, uint8_t **ret, size_t *ret_size) must_check;
/* Reads the file and finds out what it is. What is strange about it is said. */
struct error *report_file_open(const char *path, struct report_file *ret) must_check;
void report_file_release(struct report_file *file);
#define _cleanup_report_file_ __attribute__((cleanup(report_file_release)))

/* From the bytes of a trace. */
struct error *report_read_trace(const void *bytes, size_t size, struct report_file *ret) must_check;

/* A profile's time by what its samples have in common. */
struct report_table {
	enum group_key key;
	const char *label; /* of GROUP_LABEL */
	size_t rows;       /* at most; 0: all */
};

struct error *report_write_table(const struct report_file *file, const struct report_table *table,
				 FILE *out) must_check;
struct error *report_write_json(const struct report_file *file, const struct report_table *table,
				FILE *out) must_check;
/* How the shares of two profiles differ, the greatest difference first. */
/* Writes the list, which stays the caller's. */
void report_write_json_list(struct json_object *list, FILE *out);
struct error *report_write_diff(const struct report_file *before, const struct report_file *after,
				const struct report_table *table, FILE *out) must_check;

/* The requests of a trace, the slowest first; or, with --per, their groups. */
struct report_requests {
	const char *heading; /* what tells them apart */
	bool groups;
	size_t rows; /* at most; 0: all */
};

struct error *report_write_requests(const struct report_file *file,
				    const struct report_requests *how, FILE *out) must_check;
struct error *report_write_requests_json(const struct report_file *file,
					 const struct report_requests *how, FILE *out) must_check;

/* "12.3 s", "45 ms": at most 8 characters. */
const char *report_time(uint64_t ns, char text[static 16]);

#endif
