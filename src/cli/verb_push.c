#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "cli/duration.h"
#include "cli/find.h"
#include "cli/stop.h"
#include "push/authorities.h"
#include "push/process_labels.h"
#include "push/push.h"

enum {
	KEY_TO = 0x7600,
	KEY_CONTAINER,
	KEY_HOST,
	KEY_CHILDREN,
	KEY_INTERVAL,
	KEY_LABEL,
	KEY_SPOOL,
	KEY_SPOOL_SIZE,
	KEY_TOKEN_FILE,
	KEY_HEADER,
	KEY_CA_FILE,
	KEY_TIMEOUT,
	KEY_BUDGET,
	KEY_NO_NAMES
};

enum { MOST_TARGETS = 256, MOST_LABELS = 64, MOST_HEADERS = 32 };

struct push_verb {
	struct push_options push;
	const char *url;
	char *whole_url;     /* with the path */
	const char *ca_file; /* NULL: the system's */
	char *authorities;
	char *spool; /* the default */
	double spool_mb;
	const char *labels[MOST_LABELS + 1];
	size_t label_count;
	const char *headers[MOST_HEADERS + 1];
	size_t header_count;
	const char *names[MOST_TARGETS + 1];
	pid_t pids[MOST_TARGETS + 1];
	size_t name_count, pid_count;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Target:", 1},
	{"pid", 'p', "PID|NAME", 0,
	 "Push this process, or all that have this name, also later ones; may be repeated; -p may be "
	 "omitted",
	 1},
	{"container", KEY_CONTAINER, "ID", 0,
	 "Push the Go processes in this container; the first 4 characters suffice", 1},
	{"host", KEY_HOST, NULL, 0, "Push every Go process of this machine", 1},
	{"children", KEY_CHILDREN, NULL, 0,
	 "Push the Go programs that the target starts too, also later ones", 1},
	{NULL, 0, NULL, 0, "Server:", 2},
	{"to", KEY_TO, "KIND", 0, "pyroscope, parca or otlp", 2},
	{"token-file", KEY_TOKEN_FILE, "FILE", 0,
	 "Send the token in this file: as the password of the URL's user, else as a bearer token",
	 2},
	{"header", KEY_HEADER, "NAME: VALUE", 0, "Send this header too; may be repeated", 2},
	{"ca-file", KEY_CA_FILE, "FILE", 0,
	 "Trust the certificates in this file (PEM) instead of the system's", 2},
	{"timeout", KEY_TIMEOUT, "DURATION", 0, "For one request (30s)", 2},
	{NULL, 0, NULL, 0, "Profiles:", 3},
	{"interval", KEY_INTERVAL, "DURATION", 0, "Push a segment of this length (10s)", 3},
	{"label", KEY_LABEL, "KEY=VALUE", 0,
	 "Label all profiles, or replace a label of that name; may be repeated", 3},
	{"budget", KEY_BUDGET, "PERCENT", 0,
	 "Limit gospect's own CPU usage to this share of one core, for all processes together (1)",
	 3},
	{"no-names", KEY_NO_NAMES, NULL, 0,
	 "Do not add the method and route of the request that a goroutine serves, and to OTLP no link "
	 "to its trace",
	 3},
	{"duration", 'd', "DURATION", 0, "End after this time; default: when interrupted", 3},
	{NULL, 0, NULL, 0, "Spool:", 4},
	{"spool", KEY_SPOOL, "DIR", 0,
	 "Keep what is not sent yet in this folder ($STATE_DIRECTORY, /var/lib/gospect, or "
	 "~/.local/state/gospect)",
	 4},
	{"spool-size", KEY_SPOOL_SIZE, "MB", 0, "Keep at most this much; the oldest goes (256)", 4},
	{0}};

static error_t add_label(struct push_verb *v, const char *arg, struct argp_state *state)
{
	if (!label_is_valid(arg))
		return wrong_option(state, "--label: '%s' is not KEY=VALUE", arg);
	if (v->label_count == MOST_LABELS)
		return wrong_option(state, "too many labels: the limit is %d", MOST_LABELS);
	v->labels[v->label_count++] = arg;
	return 0;
}

static error_t add_header(struct push_verb *v, const char *arg, struct argp_state *state)
{
	const char *colon = strchr(arg, ':');

	if (!colon || colon == arg || strpbrk(arg, "\r\n"))
		return wrong_option(state, "--header: '%s' is not NAME: VALUE", arg);
	if (v->header_count == MOST_HEADERS)
		return wrong_option(state, "too many headers: the limit is %d", MOST_HEADERS);
	v->headers[v->header_count++] = arg;
	return 0;
}

static error_t set_kind(struct push_verb *v, const char *arg, struct argp_state *state)
{
	v->push.destination = destination_named(arg);
	if (!v->push.destination)
		return wrong_option(state, "--to: unknown kind '%s'; use pyroscope, parca or otlp",
				    arg);
	return 0;
}

static error_t add_target(struct push_verb *v, char *arg, struct argp_state *state)
{
	const char *word = NULL;
	unsigned long pid;
	error_t failed = parse_target(arg, &word, state);

	if (failed)
		return failed;
	if (v->name_count + v->pid_count == MOST_TARGETS)
		return wrong_option(state, "too many targets: the limit is %d", MOST_TARGETS);
	if (parse_id(word, &pid))
		v->pids[v->pid_count++] = pid;
	else
		v->names[v->name_count++] = word;
	return 0;
}

/* A URL is the server; anything else is a target. */
static error_t take_word(struct push_verb *v, char *arg, struct argp_state *state)
{
	if (!strstr(arg, "://"))
		return add_target(v, arg, state);
	if (v->url)
		return wrong_option(state, "two URLs, %s and %s; give one", v->url, arg);
	v->url = arg;
	return 0;
}

static error_t parse_server(int key, char *arg, struct argp_state *state)
{
	struct push_verb *v = state->input;

	switch (key) {
	case KEY_TO:
		return set_kind(v, arg, state);
	case KEY_TOKEN_FILE:
		v->push.token_file = arg;
		return 0;
	case KEY_HEADER:
		return add_header(v, arg, state);
	case KEY_CA_FILE:
		v->ca_file = arg;
		return 0;
	case KEY_TIMEOUT:
		return parse_duration_option(arg, 0.1, 600, &v->push.http.timeout, state);
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct push_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		return take_word(v, arg, state);
	case 'p':
		return add_target(v, arg, state);
	case KEY_CONTAINER:
		return parse_container(arg, &v->push.wanted.container, state);
	case KEY_HOST:
		v->push.wanted.host = true;
		return 0;
	case KEY_CHILDREN:
		v->push.wanted.children = true;
		return 0;
	case KEY_INTERVAL:
		return parse_duration_option(arg, 1, 3600, &v->push.interval, state);
	case KEY_LABEL:
		return add_label(v, arg, state);
	case KEY_BUDGET:
		return parse_number_option(arg, 0.01, 100, &v->push.budget, state, "budget");
	case KEY_NO_NAMES:
		v->push.no_names = true;
		return 0;
	case 'd':
		return parse_duration_option(arg, 0.1, 1e7, &v->push.duration, state);
	case KEY_SPOOL:
		v->push.spool = arg;
		return 0;
	case KEY_SPOOL_SIZE:
		return parse_number_option(arg, 1, 1e6, &v->spool_mb, state, "number of MB");
	}
	return parse_server(key, arg, state);
}

static const struct argp argp = {
	options,
	parse,
	"--to KIND URL PID|NAME...\n--to KIND URL --host",
	"Sends continuous profiles of Go programs to Pyroscope, Parca or an OpenTelemetry collector: "
	"wall clock, CPU, memory and goroutines. It does not stop the programs. What the server does "
	"not take waits on disk.\v"
	"URLs: http:// or https://; grpc:// or grpcs:// for OTLP over gRPC. Parca is always gRPC.\n"
	"\n"
	"Examples:\n"
	"  gospect push --to pyroscope http://localhost:4040 -p server\n"
	"  gospect push --to otlp https://collector:4318 --host --label env=prod",
	NULL,
	NULL,
	NULL};

/* ---- the server ---- */

static bool begins(const char *text, const char *with, const char **ret_rest)
{
	size_t length = strlen(with);

	if (strncmp(text, with, length))
		return false;
	*ret_rest = text + length;
	return true;
}

static bool is_loopback(const char *host)
{
	const char *at = strpbrk(host, "@/");

	host = at && *at == '@' ? at + 1 : host;
	return !strncmp(host, "127.", 4) || !strncmp(host, "[::1]", 5) ||
	       (!strncmp(host, "localhost", 9) && strchr(":/", host[9]));
}

/* The scheme says whether it is gRPC, and whether there is TLS. */
static struct error *must_check make_url(struct push_verb *v)
{
	const struct destination *d = v->push.destination;
	const char *rest, *path, *at;
	bool grpc = false, tls = false;
	size_t length;

	if (begins(v->url, "grpcs://", &rest))
		grpc = tls = true;
	else if (begins(v->url, "grpc://", &rest))
		grpc = true;
	else if (begins(v->url, "https://", &rest))
		tls = true;
	else if (!begins(v->url, "http://", &rest))
		rest = "";
	at = strpbrk(rest, "@/?#");
	if (!*rest || *rest == '/' || strpbrk(rest, "?# \t\r\n"))
		return error_format(ERROR_USAGE, "push: invalid URL %s; use http://HOST:PORT",
				    v->url);
	if (at && *at == '@' && memchr(rest, ':', at - rest))
		return error_format(ERROR_USAGE,
				    "push: the URL has a password; put it in a file: --token-file");
	grpc |= !d->path;
	if (grpc && !d->grpc_path)
		return error_format(ERROR_USAGE,
				    "push: %s does not support gRPC; use http:// or https://",
				    d->name);
	if (v->push.token_file && !tls && !is_loopback(rest))
		return error_format(ERROR_USAGE,
				    "push: --token-file over %s would be readable on the way; use "
				    "https:// or grpcs://",
				    grpc ? "grpc://" : "http://");
	path = grpc ? d->grpc_path : d->path;
	length = strlen(rest);
	while (length && rest[length - 1] == '/')
		length--;
	/* The whole URL may be given. */
	if (length >= strlen(path) && !memcmp(rest + length - strlen(path), path, strlen(path)))
		path = "";
	if (asprintf(&v->whole_url, "%s://%.*s%s", tls ? "https" : "http", (int)length, rest,
		     path) < 0)
		return &error_no_memory;
	v->push.http.url = v->whole_url;
	v->push.http.is_grpc = grpc;
	v->push.http.content_type = d->content_type;
	v->push.http.is_gzipped = d->is_gzipped;
	v->push.where = v->url;
	return NULL;
}

/* Read now: the process that sends has no right to read it. */
static struct error *must_check read_authorities(struct push_verb *v)
{
	struct http_options *o = &v->push.http;
	struct error *err;

	if (!v->ca_file && strncmp(o->url, "https:", 6))
		return NULL;
	err = authorities_read(v->ca_file, &v->authorities, &o->authorities_size);
	o->authorities = v->authorities;
	return err;
}

/* ---- the processes ---- */

static struct error *must_check check_targets(struct push_verb *v)
{
	struct push_wanted *w = &v->push.wanted;
	char path[48];

	if (!w->host && !w->container && !v->name_count && !v->pid_count)
		return error_format(ERROR_USAGE,
				    "push: no target; use -p PID, -p NAME or --host (`gospect ps` "
				    "lists the Go processes)");
	if (w->host && (w->container || v->name_count || v->pid_count))
		return error_format(ERROR_USAGE,
				    "push: --host and a process are mutually exclusive");
	if (w->host && w->children)
		return error_format(
			ERROR_USAGE,
			"push: --children and --host are mutually exclusive: --host has "
			"all processes");
	for (size_t i = 0; i < v->pid_count; i++) {
		snprintf(path, sizeof(path), "/proc/%d", v->pids[i]);
		if (access(path, F_OK))
			return error_format(
				ERROR_FAILED,
				"no such process: %d; `gospect ps` lists the Go processes",
				v->pids[i]);
	}
	w->names = v->names;
	w->pids = v->pids;
	return NULL;
}

/* ---- the spool ---- */

/* Creates the folders of a default spool. */
static void create_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700); /* opening the spool reports an error */
		*slash = '/';
	}
}

static struct error *must_check choose_spool(struct push_verb *v)
{
	const char *state = getenv("STATE_DIRECTORY"), *user = getenv("XDG_STATE_HOME"),
		   *home = getenv("HOME");
	int made;

	v->push.spool_bytes = (uint64_t)(v->spool_mb * (1 << 20));
	if (v->push.spool)
		return NULL;
	if (state && *state == '/')
		made = asprintf(&v->spool, "%s", state);
	else if (!geteuid())
		made = asprintf(&v->spool, "/var/lib/gospect");
	else if (user && *user == '/')
		made = asprintf(&v->spool, "%s/gospect", user);
	else
		made = asprintf(&v->spool, "%s/.local/state/gospect", home ? home : "");
	if (made < 0)
		v->spool = NULL;
	if (!v->spool)
		return &error_no_memory;
	create_folders(v->spool);
	v->push.spool = v->spool;
	return NULL;
}

/* ---- all ---- */

static struct error *must_check check(struct push_verb *v)
{
	if (!v->push.destination)
		return error_format(ERROR_USAGE,
				    "push: no server; use --to pyroscope URL, --to parca URL or "
				    "--to otlp URL");
	if (!v->url)
		return error_format(ERROR_USAGE, "push: no URL; use --to %s http://HOST:PORT",
				    v->push.destination->name);
	return NULL;
}

static void say_summary(const struct push_summary *s)
{
	say("%.1f s, %lu processes, %lu requests: %lu sent, %lu lost, %lu refused, %lu wait in the "
	    "spool; gospect used %.2f %% of a core",
	    s->seconds, s->processes, s->requests, s->sent, s->dropped, s->refused, s->waiting,
	    s->cpu_percent);
}

static struct error *must_check run_push(struct push_verb *v)
{
	struct push_summary summary;
	struct error *err = check(v);

	if (!err)
		err = check_targets(v);
	if (!err)
		err = make_url(v);
	if (!err)
		err = read_authorities(v);
	if (!err)
		err = choose_spool(v);
	if (err)
		return err;
	stop_on_signals();
	v->push.labels = v->labels;
	v->push.http.headers = v->headers;
	v->push.cancel = stop_cancel;
	v->push.say = say_remark;
	fflush(NULL);
	err = push_run(&v->push, &summary);
	if (err)
		return err;
	say_summary(&summary);
	return summary.processes ? NULL : error_format(ERROR_FAILED, "no Go process was recorded");
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct push_verb v = {
		.push = {.interval = 10, .budget = 1, .http.timeout = 30},
		.spool_mb = 256,
	};
	bool help;
	struct error *err = parse_options(&argp, "push", argc, argv, &v, &help);

	if (!err && !help)
		err = run_push(&v);
	free(v.whole_url);
	free(v.authorities);
	free(v.spool);
	return err;
}

const struct verb verb_push = {"push", "send profiles to Pyroscope, Parca or OpenTelemetry all day",
			       run};
