#include "push/process_labels.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* An environment may be larger: its beginning is read. */
#define MOST_ENVIRONMENT (256u << 10)

/* The variables that say it, the first that is there; and the keys of OTEL_RESOURCE_ATTRIBUTES,
 * which come before. */
static const struct {
	const char *prometheus, *otel;
	const char *variables[3];
	const char *keys[3];
} kinds[LABEL_KINDS] = {
	[LABEL_SERVICE] = {"service_name", "service.name", {"OTEL_SERVICE_NAME"}, {"service.name"}},
	[LABEL_VERSION] = {"service_version",
			   "service.version",
			   {"SERVICE_VERSION"},
			   {"service.version"}},
	[LABEL_NAMESPACE] = {"namespace",
			     "k8s.namespace.name",
			     {"POD_NAMESPACE", "NAMESPACE"},
			     {"k8s.namespace.name", "service.namespace"}},
	[LABEL_POD] = {"pod", "k8s.pod.name", {"POD_NAME"}, {"k8s.pod.name"}},
	[LABEL_CONTAINER] = {"container", "container.id", {NULL}, {NULL}},
	[LABEL_HOST] = {"hostname", "host.name", {NULL}, {NULL}},
	[LABEL_PID] = {"pid", "process.pid", {NULL}, {NULL}},
	[LABEL_GO_VERSION] = {"go_version", "process.runtime.version", {NULL}, {NULL}},
};

int process_environment_open(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	return door_open(path, 0);
}

void process_labels_release(struct labels *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->items[i].name);
		free(l->items[i].value);
	}
	free(l->items);
	*l = (struct labels){0};
}

const char *label_otel_name(const struct label *l)
{
	return l->name ? l->name : kinds[l->kind].otel;
}

void label_prometheus_name(const struct label *l, char to[LABEL_MOST + 1])
{
	snprintf(to, LABEL_MOST + 1, "%s", l->name ? l->name : kinds[l->kind].prometheus);
	for (char *c = to; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
}

/* ---- of the process ---- */

/* NULL: no memory. Ends in two NULs. */
static char *read_environment(int fd)
{
	char *bytes = calloc(1, MOST_ENVIRONMENT + 2);
	size_t size = 0;
	ssize_t n = 1;

	while (bytes && fd >= 0 && n && size < MOST_ENVIRONMENT) {
		n = read(fd, bytes + size, MOST_ENVIRONMENT - size);
		if (n < 0 && errno != EINTR)
			break;
		size += n > 0 ? n : 0;
	}
	return bytes;
}

/* NULL: not there, or empty. */
static const char *variable(const char *environment, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = environment; *at; at += strlen(at) + 1)
		if (!strncmp(at, name, length) && at[length] == '=')
			return at[length + 1] ? at + length + 1 : NULL;
	return NULL;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'         ? c - '0'
	       : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
					    : -1;
}

/* The value of a key in "key=value,key=value", whose bytes may be written as %20. */
static bool attribute(const char *list, const char *key, char ret[LABEL_MOST + 1])
{
	size_t length = strlen(key), n = 0;
	const char *at = list;

	while (at && (strncmp(at, key, length) || at[length] != '=')) {
		at = strchr(at, ',');
		at = at ? at + 1 + strspn(at + 1, " ") : NULL;
	}
	if (!at)
		return false;
	for (at += length + 1; *at && *at != ',' && n < LABEL_MOST; at++) {
		bool is_escape = *at == '%' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0;

		ret[n++] = is_escape ? (char)(hex_digit(at[1]) * 16 + hex_digit(at[2])) : *at;
		at += is_escape ? 2 : 0;
	}
	ret[n] = '\0';
	return n;
}

/* False: the environment does not say it. */
static bool find(const char *environment, enum label_kind kind, char ret[LABEL_MOST + 1])
{
	const char *attributes = variable(environment, "OTEL_RESOURCE_ATTRIBUTES");

	for (size_t i = 0; i < ARRAY_SIZE(kinds[kind].variables); i++) {
		const char *name = kinds[kind].variables[i];
		const char *value = name ? variable(environment, name) : NULL;

		/* OTEL_SERVICE_NAME comes before the attributes, as OpenTelemetry has it. */
		if (value && (kind == LABEL_SERVICE || !attributes))
			return snprintf(ret, LABEL_MOST + 1, "%s", value) > 0;
	}
	for (size_t i = 0; attributes && i < ARRAY_SIZE(kinds[kind].keys); i++)
		if (kinds[kind].keys[i] && attribute(attributes, kinds[kind].keys[i], ret))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(kinds[kind].variables); i++) {
		const char *name = kinds[kind].variables[i];
		const char *value = name ? variable(environment, name) : NULL;

		if (value)
			return snprintf(ret, LABEL_MOST + 1, "%s", value) > 0;
	}
	return false;
}

/* ---- the list ---- */

/* Protobuf's strings are UTF-8. NULL: no memory. */
static char *text_of(const char *value)
{
	struct strbuf sb = STRBUF_INIT;

	utf8_add(&sb, value, strnlen(value, LABEL_MOST));
	if (!sb.failed && sb.length)
		return sb.data;
	strbuf_release(&sb);
	return sb.failed ? NULL : strdup("");
}

/* Takes the name. */
static struct error *must_check add(struct labels *l, char *name, enum label_kind kind,
				    const char *value)
{
	char *text = text_of(value);

	if (!text || !array_reserve(&l->items, &l->capacity, l->count + 1)) {
		free(text);
		free(name);
		return &error_no_memory;
	}
	l->items[l->count++] = (struct label){name, kind, text};
	return NULL;
}

bool label_is_valid(const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || equals - text > LABEL_MOST ||
	    isdigit((unsigned char)*text))
		return false;
	for (const char *c = text; c < equals; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-/", *c))
			return false;
	return isalpha((unsigned char)*text) || *text == '_';
}

static bool is_same_name(const struct label *l, const char *name, size_t length)
{
	const char *otel = label_otel_name(l);
	char prometheus[LABEL_MOST + 1];

	label_prometheus_name(l, prometheus);
	return (strlen(otel) == length && !memcmp(otel, name, length)) ||
	       (strlen(prometheus) == length && !memcmp(prometheus, name, length));
}

static struct error *must_check add_own(struct labels *l, const char *text)
{
	const char *equals = strchr(text, '=');

	for (size_t i = 0; i < l->count; i++) {
		struct label *label = &l->items[i];

		if (!is_same_name(label, text, equals - text))
			continue;
		free(label->value);
		label->value = text_of(equals + 1);
		return label->value ? NULL : &error_no_memory;
	}
	return add(l, strndup(text, equals - text), LABEL_KINDS, equals + 1);
}

/* In Kubernetes the name of the machine is that of the pod. */
static const char *pod_of(const char *environment)
{
	return variable(environment, "KUBERNETES_SERVICE_HOST") ? variable(environment, "HOSTNAME")
								: NULL;
}

static struct error *must_check add_machine(struct labels *l, pid_t pid, const char *go_version)
{
	char text[CGROUP_CONTAINER_SIZE], path[32], host[LABEL_MOST + 1] = "";
	struct error *err = NULL;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (cgroup_container(path, NULL, text))
		err = add(l, NULL, LABEL_CONTAINER, text);
	if (!err && !gethostname(host, sizeof(host) - 1))
		err = add(l, NULL, LABEL_HOST, host);
	snprintf(text, sizeof(text), "%d", pid);
	if (!err)
		err = add(l, NULL, LABEL_PID, text);
	return err ? err : add(l, NULL, LABEL_GO_VERSION, go_version);
}

struct error *process_labels_read(int fd, pid_t pid, const char *program, const char *go_version,
				  const char *const *own, struct labels *ret)
{
	_cleanup_free_ char *environment = read_environment(fd);
	struct error *err = environment ? NULL : &error_no_memory;

	for (enum label_kind kind = 0; !err && kind <= LABEL_POD; kind++) {
		char value[LABEL_MOST + 1];
		bool known = find(environment, kind, value);

		if (!known && kind == LABEL_SERVICE)
			known = snprintf(value, sizeof(value), "%s", program) > 0;
		if (!known && kind == LABEL_POD && pod_of(environment))
			known = snprintf(value, sizeof(value), "%s", pod_of(environment)) > 0;
		if (known)
			err = add(ret, NULL, kind, value);
	}
	if (!err)
		err = add_machine(ret, pid, go_version);
	for (size_t i = 0; !err && own && own[i]; i++)
		err = add_own(ret, own[i]);
	return err;
}
