/*
 * The labels of a process: what a server shows its profiles under. From its environment as it was
 * at its start, its control group, and the user. All of it is the process's own choice, or
 * hostile; names and values are cut to LABEL_MOST bytes.
 */
#ifndef PUSH_PROCESS_LABELS_H
#define PUSH_PROCESS_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define LABEL_MOST 255

/* What labels say, in the order of the names in process_labels.c. */
enum label_kind {
	LABEL_SERVICE,
	LABEL_VERSION,
	LABEL_NAMESPACE,
	LABEL_POD,
	LABEL_CONTAINER,
	LABEL_HOST,
	LABEL_PID,
	LABEL_GO_VERSION,
	LABEL_KINDS,
};

struct label {
	char *name; /* of an enum label_kind: NULL */
	enum label_kind kind;
	char *value;
};

struct labels {
	struct label *items;
	size_t count, capacity;
};

/* Opens the environment of a process, before privilege is given up. -1: it may not be read. */
int process_environment_open(pid_t pid);

/*
 * `program` is the name of its file, which is its service where nothing else names one. `own` are
 * labels of the user, "KEY=VALUE", which replace those of the same name; NULL-terminated.
 */
struct error *process_labels_read(int environment, pid_t pid, const char *program,
				  const char *go_version, const char *const *own,
				  struct labels *ret) must_check;
void process_labels_release(struct labels *l);

/* Whether "KEY=VALUE" is one, with a key of letters, digits, '_', '.', '-' and '/' that begins with
 * a letter or '_'. */
bool label_is_valid(const char *text);

/* The name as OpenTelemetry has it ("service.name"), or, with letters, digits and '_' alone, as
 * Prometheus has it ("service_name"), which is written to `to`. */
const char *label_otel_name(const struct label *l);
void label_prometheus_name(const struct label *l, char to[LABEL_MOST + 1]);

#define _cleanup_labels_ __attribute__((cleanup(process_labels_release)))

#endif
