#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/find.h"
#include "cli/stop.h"
#include "cli/target_options.h"
#include "cli/try_target.h"
#include "serve/serve_keeper.h"
#include "serve/serve_names.h"

enum {
	KEY_HOST = 0x7300,
	KEY_CHILDREN,
	KEY_LISTEN,
	KEY_NAME,
	KEY_NO_TRACE,
	KEY_BUDGET,
	KEY_TOKEN,
	KEY_CERT,
	KEY_KEY,
	KEY_CLIENT_CA,
};

#define DEFAULT_LISTEN "127.0.0.1:6060"
#define MOST_NAMES 16
/* Of a file with a token, a key or certificates. */
#define MOST_BYTES (1u << 20)
/* A shorter token could be guessed. */
#define LEAST_TOKEN 16

struct serve_verb {
	struct target_options target;
	const char *listen;
	const char *names[MOST_NAMES + 1];
	size_t name_count;
	const char *token_file, *cert_file, *key_file, *ca_file;
	struct strbuf token, cert, key, ca;
	pid_t pids[TARGETS_MOST];
	struct serve_options how;
};

static const struct argp_option options[] =
	{{"host", KEY_HOST, NULL, 0,
	  "Serve every Go process of this machine that gospect can read (the default)", 1},
	 {"children", KEY_CHILDREN, NULL, 0,
	  "Serve the Go programs that the target starts too, also later ones", 1},
	 {NULL, 0, NULL, 0, "Server:", 4},
	 {"listen", KEY_LISTEN, "ADDRESS:PORT", 0,
	  "Listen here (" DEFAULT_LISTEN
	  "); :PORT means all addresses. An address that other machines "
	  "can reach needs TLS, and a token or --client-ca",
	  4},
	 {"name", KEY_NAME, "NAME", 0,
	  "Answer requests for this host name too, beside the address; several are possible", 4},
	 {"token-file", KEY_TOKEN, "FILE", 0,
	  "Answer only requests with the token in this file, as a bearer token or as a password",
	  4},
	 {"tls-cert", KEY_CERT, "FILE", 0, "Speak HTTPS with this certificate (PEM)", 4},
	 {"tls-key", KEY_KEY, "FILE", 0, "The certificate's key (PEM)", 4},
	 {"client-ca", KEY_CLIENT_CA, "FILE", 0,
	  "Answer only clients with a certificate by this CA (PEM)", 4},
	 {"no-trace", KEY_NO_TRACE, NULL, 0,
	  "Do not serve /debug/pprof/trace, which writes to the program while it runs", 4},
	 {"budget", KEY_BUDGET, "PERCENT", 0,
	  "Use at most this share of one core for each recording (1)", 4},
	 {0}};

static error_t add_name(struct serve_verb *v, const char *name, struct argp_state *state)
{
	if (v->name_count == MOST_NAMES)
		return wrong_option(state, "too many names: the limit is %d", MOST_NAMES);
	v->names[v->name_count++] = name;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->target;
		state->child_inputs[1] = &v->target;
		return 0;
	case KEY_HOST:
		v->target.host = true;
		return 0;
	case KEY_CHILDREN:
		v->target.children = true;
		return 0;
	case KEY_LISTEN:
		v->listen = arg;
		return 0;
	case KEY_NAME:
		return add_name(v, arg, state);
	case KEY_NO_TRACE:
		v->how.traces = false;
		return 0;
	case KEY_BUDGET:
		return parse_number_option(arg, 0.01, 100, &v->how.budget, state, "budget");
	case KEY_TOKEN:
		v->token_file = arg;
		return 0;
	case KEY_CERT:
		v->cert_file = arg;
		return 0;
	case KEY_KEY:
		v->key_file = arg;
		return 0;
	case KEY_CLIENT_CA:
		v->ca_file = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&target_options_argp, 0, NULL, 0},
					     {&target_options_exe_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {
	options,
	parse,
	"[PID|NAME...]\n--host",
	"Serves /debug/pprof of Go programs over HTTP, as net/http/pprof does, for programs that "
	"did not import it. `go tool pprof` and scrapers work with it. /debug/pprof/trace writes to "
	"the program while it runs and stops it once; everything else only reads.\v"
	"One process: /debug/pprof/; several: /PID/debug/pprof/, and / has links to them.\n"
	"\n"
	"Examples:\n"
	"  gospect serve -p server\n"
	"  gospect serve --host --listen 127.0.0.1:7070",
	children,
	NULL,
	NULL};

/* ---- where, and for whom ---- */

static struct error *must_check check_address(struct serve_verb *v)
{
	struct serve_options *o = &v->how;

	if (!serve_address_parse(v->listen, &o->address, &o->address_size))
		return error_format(ERROR_USAGE,
				    "serve: invalid address '%s'; use ADDRESS:PORT, as "
				    "127.0.0.1:6060 or [::1]:6060",
				    v->listen);
	if (!v->cert_file != !v->key_file)
		return error_format(ERROR_USAGE, "serve: --tls-cert and --tls-key need each other");
	if (v->ca_file && !v->cert_file)
		return error_format(ERROR_USAGE,
				    "serve: --client-ca needs --tls-cert and --tls-key");
	if (serve_address_is_loopback(&o->address))
		return NULL;
	if (!v->cert_file || (!v->token_file && !v->ca_file))
		return error_format(
			ERROR_USAGE,
			"serve: %s can be reached from other machines; give --tls-cert, --tls-key, "
			"and --token-file or --client-ca",
			v->listen);
	return NULL;
}

static struct error *must_check read_file(const char *path, struct strbuf *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char bytes[4096];
	ssize_t n = 1;

	if (fd < 0)
		return error_errno(ERROR_FAILED, errno, "cannot open %s", path);
	while (n > 0 && ret->length < MOST_BYTES) {
		n = read(fd, bytes, sizeof(bytes));
		if (n < 0)
			return error_errno(ERROR_FAILED, errno, "cannot read %s", path);
		strbuf_add(ret, bytes, n);
	}
	return ret->failed ? &error_no_memory : NULL;
}

static struct error *must_check read_token(struct serve_verb *v)
{
	struct error *err = read_file(v->token_file, &v->token);
	size_t length = strcspn(v->token.data, " \t\r\n");

	if (err)
		return err;
	if (length < LEAST_TOKEN ||
	    strlen(v->token.data + length) != strspn(v->token.data + length, " \t\r\n"))
		return error_format(ERROR_FAILED,
				    "%s has no token: it must be one word of %d characters or more",
				    v->token_file, LEAST_TOKEN);
	v->token.data[length] = '\0';
	v->how.token = v->token.data;
	return NULL;
}

static struct error *must_check read_files(struct serve_verb *v)
{
	struct error *err = v->token_file ? read_token(v) : NULL;

	if (!err && v->cert_file)
		err = read_file(v->cert_file, &v->cert);
	if (!err && v->key_file)
		err = read_file(v->key_file, &v->key);
	if (!err && v->ca_file)
		err = read_file(v->ca_file, &v->ca);
	v->how.certificate = v->cert_file ? v->cert.data : NULL;
	v->how.key = v->key_file ? v->key.data : NULL;
	v->how.client_ca = v->ca_file ? v->ca.data : NULL;
	return err;
}

/* ---- the processes ---- */

static struct error *must_check add_process(struct serve_verb *v, pid_t pid)
{
	for (size_t i = 0; i < v->how.pid_count; i++)
		if (v->pids[i] == pid)
			return NULL;
	v->pids[v->how.pid_count++] = pid;
	v->how.pids = v->pids;
	return NULL;
}

static struct error *must_check find_processes(struct serve_verb *v)
{
	struct target_options *o = &v->target;
	struct error *err;
	pid_t pid;

	if (o->host)
		return NULL;
	err = target_options_find(o);
	if (!err)
		err = add_process(v, o->pid);
	for (size_t i = 0; !err && i < o->more_count; i++) {
		err = find_target(o->more[i], o->verb, &pid);
		if (!err)
			err = add_process(v, pid);
	}
	return err;
}

/* Fails now instead of in each answer. One readable process is enough. With --children, a Go
 * program may start later. */
static struct error *must_check try_processes(const struct serve_verb *v)
{
	size_t failed = 0;

	for (size_t i = 0; !v->how.children && i < v->how.pid_count && !stop_requested; i++) {
		struct error *err = try_target(v->pids[i], v->how.exe);

		if (!err)
			continue;
		if (v->how.pid_count == 1)
			return err;
		say("%s", err->message);
		error_destroy(err);
		failed++;
	}
	if (failed && failed == v->how.pid_count)
		return error_format(ERROR_FAILED, "serve: none of these processes can be read");
	return NULL;
}

static void say_address(void *arg, const char *address)
{
	const struct serve_verb *v = arg;
	const char *scheme = v->cert_file ? "https" : "http";

	if (v->how.pid_count == 1 && !v->how.children)
		say("serving process %d at %s://%s/debug/pprof/", v->how.pids[0], scheme, address);
	else
		say("serving Go processes at %s://%s/", scheme, address);
	if (!v->token_file && !v->ca_file && !geteuid())
		say("every user of this machine can read these processes through this port; "
		    "--token-file FILE prevents that");
}

static void say_unconfined(void *arg)
{
	say("cannot install a seccomp filter: the HTTP process continues without its sandbox, and "
	    "without privilege");
}

static struct error *run_serve(struct serve_verb *v)
{
	bool ended = false;
	struct error *err;

	if (!v->target.word && !v->target.container && !v->target.command && !v->target.core)
		v->target.host = true;
	err = target_options_check(&v->target, "serve");
	if (!err && v->target.command)
		err = error_format(
			ERROR_USAGE,
			"serve: -- COMMAND is not supported; start the command, and use -p");
	if (!err)
		err = check_address(v);
	if (!err)
		err = read_files(v);
	if (err)
		return err;
	stop_on_signals();
	command_offer_to_be_killed();
	err = find_processes(v);
	v->how.exe = v->target.exe;
	v->how.children = v->target.children;
	v->how.cancel = stop_cancel;
	v->how.names = v->names;
	v->how.listens = say_address;
	v->how.unconfined = say_unconfined;
	v->how.arg = v;
	if (!err)
		err = try_processes(v);
	if (!err)
		err = serve_run(&v->how, &ended);
	if (!err && ended)
		say("all processes that were served have ended");
	return err;
}

static void release(struct serve_verb *v)
{
	strbuf_release(&v->token);
	strbuf_release(&v->cert);
	strbuf_release(&v->key);
	strbuf_release(&v->ca);
}

static struct error *run(int argc, char **argv, int *ret)
{
	_cleanup_(release) struct serve_verb v = {.target = {.takes_many = true},
						  .listen = DEFAULT_LISTEN,
						  .token = STRBUF_INIT,
						  .cert = STRBUF_INIT,
						  .key = STRBUF_INIT,
						  .ca = STRBUF_INIT,
						  .how.traces = true};
	bool help;
	struct error *err = parse_options(&argp, "serve", argc, argv, &v, &help);

	return err || help ? err : run_serve(&v);
}

const struct verb verb_serve = {"serve", "serve /debug/pprof over HTTP, for programs without it",
				run};
