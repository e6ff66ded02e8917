#include "serve/serve_route.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* As net/http/pprof has them. */
#define PROFILE_SECONDS 30
#define TRACE_SECONDS 1
#define WALL_SECONDS 10
#define HOUR_SECONDS 3600

/* Formats of a kind: the first is the default. */
#define FORMATS_OF_PROFILE \
	(1u << SERVE_PPROF | 1u << SERVE_HTML | 1u << SERVE_FOLDED | 1u << SERVE_SPEEDSCOPE)

static const struct {
	const char *folder; /* "": /, or /PID/ */
	const char *name;
	double seconds;          /* 0: the answer takes no time unless it is asked to */
	uint32_t formats;        /* a sum of 1 << enum serve_format; 0: one of its own */
	enum serve_format first; /* without format= */
} kinds[SERVE_KINDS] = {
	[SERVE_HOME] = {"", NULL},
	[SERVE_INDEX] = {"debug/pprof/", ""},
	[SERVE_CMDLINE] = {"debug/pprof/", "cmdline"},
	[SERVE_PROFILE] = {"debug/pprof/", "profile", PROFILE_SECONDS},
	[SERVE_SYMBOL] = {"debug/pprof/", "symbol"},
	[SERVE_TRACE] = {"debug/pprof/", "trace", TRACE_SECONDS},
	[SERVE_HEAP] = {"debug/pprof/", "heap"},
	[SERVE_ALLOCS] = {"debug/pprof/", "allocs"},
	[SERVE_BLOCK] = {"debug/pprof/", "block"},
	[SERVE_MUTEX] = {"debug/pprof/", "mutex"},
	[SERVE_GOROUTINE] = {"debug/pprof/", "goroutine"},
	[SERVE_THREADCREATE] = {"debug/pprof/", "threadcreate"},
	[SERVE_GOROUTINELEAK] = {"debug/pprof/", "goroutineleak"},
	[SERVE_WALL] = {"", "wall", WALL_SECONDS, FORMATS_OF_PROFILE, SERVE_PPROF},
	[SERVE_OFFCPU] = {"", "offcpu", WALL_SECONDS, FORMATS_OF_PROFILE, SERVE_PPROF},
	[SERVE_WAITS] = {"", "waits", 0, 1u << SERVE_JSON | 1u << SERVE_TEXT | 1u << SERVE_DOT,
			 SERVE_JSON},
	[SERVE_MEMORY] = {"", "memory", 0,
			  1u << SERVE_JSON | 1u << SERVE_TEXT | 1u << SERVE_HTML |
				  1u << SERVE_PPROF | 1u << SERVE_FOLDED | 1u << SERVE_SPEEDSCOPE,
			  SERVE_JSON},
	[SERVE_WHY] = {"", "why", WALL_SECONDS, 1u << SERVE_JSON, SERVE_JSON},
	[SERVE_LEAKS] = {"", "leaks", 0, 1u << SERVE_JSON | 1u << SERVE_TEXT, SERVE_JSON},
	[SERVE_METRICS] = {"", NULL},
	[SERVE_RANGE] = {"", "range", HOUR_SECONDS, FORMATS_OF_PROFILE, SERVE_HTML},
	[SERVE_GREW] = {"", "grew", HOUR_SECONDS},
	[SERVE_WATCH] = {"", NULL},
	[SERVE_LIST] = {"", NULL},
	[SERVE_HISTORY] = {"", ""},
	[SERVE_PICTURE] = {"", "hour.svg"},
	[SERVE_SCRIPT] = {"", NULL},
};

static const struct {
	const char *path;
	uint32_t kind;
} of_the_server[] = {
	{"/", SERVE_HOME},
	{"/metrics", SERVE_METRICS},
	{"/hour.js", SERVE_SCRIPT},
};

static const char *const format_names[SERVE_FORMATS] = {
	[SERVE_PPROF] = "pprof",   [SERVE_HTML] = "html",
	[SERVE_FOLDED] = "folded", [SERVE_SPEEDSCOPE] = "speedscope",
	[SERVE_JSON] = "json",     [SERVE_TEXT] = "text",
	[SERVE_DOT] = "dot",
};

const char *serve_kind_name(uint32_t kind)
{
	const char *name = kind < SERVE_KINDS ? kinds[kind].name : NULL;

	return name ? name : "";
}

/* ---- parameters ---- */

static bool is_number(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return end != text && !*end && isfinite(*ret);
}

static bool is_whole(const char *text, double *ret)
{
	size_t digits = strspn(text, "0123456789");

	return digits && !text[digits] && is_number(text, ret);
}

/* net/http/pprof takes its default for a number that is none, except for differences. */
static const char *take_seconds(const struct serve_query *q, struct serve_request *r)
{
	bool has_default = kinds[r->kind].seconds > 0, right = false;

	r->seconds = kinds[r->kind].seconds;
	if (!q->seconds)
		return NULL;
	if (r->kind == SERVE_PROFILE || !has_default)
		right = is_whole(q->seconds, &r->seconds) && r->seconds > 0;
	else
		right = is_number(q->seconds, &r->seconds) && r->seconds > 0;
	if (!right && !has_default)
		return "invalid value for \"seconds\" - must be a positive integer";
	if (!right)
		r->seconds = kinds[r->kind].seconds;
	if (r->seconds > SERVE_MOST_SECONDS)
		return "invalid value for \"seconds\" - at most 3600";
	return NULL;
}

static const char *take_debug(const struct serve_query *q, struct serve_request *r)
{
	double debug;

	if (r->kind < SERVE_HEAP || r->kind > SERVE_GOROUTINELEAK || !q->debug ||
	    !is_whole(q->debug, &debug))
		return NULL;
	r->debug = debug > 2 ? 2 : (uint32_t)debug;
	return r->debug && r->seconds > 0 ? "seconds and debug params are incompatible" : NULL;
}

static const char *take_part(const struct serve_query *q, struct serve_request *r)
{
	if ((r->kind != SERVE_RANGE && r->kind != SERVE_GREW) || (!q->from && !q->to))
		return NULL;
	if (!q->from || !q->to || !is_number(q->from, &r->from) || !is_number(q->to, &r->to) ||
	    r->from < 0 || r->to <= r->from)
		return "invalid values for \"from\" and \"to\" - seconds since 1970";
	return NULL;
}

static const char *take_format(const struct serve_query *q, struct serve_request *r)
{
	r->format = kinds[r->kind].first;
	if (!kinds[r->kind].formats || !q->format)
		return NULL;
	for (uint32_t i = 0; i < SERVE_FORMATS; i++) {
		if (strcmp(q->format, format_names[i]) || !(kinds[r->kind].formats >> i & 1))
			continue;
		r->format = i;
		return NULL;
	}
	if (r->kind == SERVE_WAITS)
		return "invalid value for \"format\" - json, text or dot";
	if (r->kind == SERVE_WHY)
		return "invalid value for \"format\" - json";
	if (r->kind == SERVE_LEAKS)
		return "invalid value for \"format\" - json or text";
	if (r->kind == SERVE_MEMORY)
		return "invalid value for \"format\" - json, text, html, pprof, folded or speedscope";
	return "invalid value for \"format\" - pprof, html, folded or speedscope";
}

/* ---- paths ---- */

/* The rest behind the number of a process: *ret_pid is 0 where there is none. NULL: no number of a
 * process can be that. */
static const char *behind_process(const char *path, int32_t *ret_pid)
{
	size_t digits = strspn(path, "0123456789");
	unsigned long pid;

	*ret_pid = 0;
	if (!digits)
		return path;
	if (digits > 10 || path[digits] != '/')
		return NULL;
	errno = 0;
	pid = strtoul(path, NULL, 10);
	if (*path == '0' || pid > INT32_MAX)
		return NULL;
	*ret_pid = (int32_t)pid;
	return path + digits + 1;
}

static bool is_kind(const char *path, uint32_t kind)
{
	size_t n = strlen(kinds[kind].folder);

	return kinds[kind].name && !strncmp(path, kinds[kind].folder, n) &&
	       !strcmp(path + n, kinds[kind].name);
}

static bool is_folder_without_slash(const char *path)
{
	return !strcmp(path, "debug/pprof");
}

static enum serve_routed find(const char *path, struct serve_request *r)
{
	if (is_folder_without_slash(path))
		return SERVE_MOVED;
	for (uint32_t kind = 0; kind < SERVE_KINDS; kind++) {
		if (!is_kind(path, kind))
			continue;
		r->kind = kind;
		return SERVE_FOUND;
	}
	return SERVE_NOT_FOUND;
}

enum serve_routed serve_route(const char *path, const struct serve_query *q, int32_t only,
			      struct serve_request *ret, const char **ret_wrong)
{
	struct serve_request r = {0};
	enum serve_routed found;

	for (size_t i = 0; i < ARRAY_SIZE(of_the_server); i++) {
		if (strcmp(path, of_the_server[i].path) != 0)
			continue;
		r.kind = of_the_server[i].kind;
		*ret = r;
		return SERVE_FOUND;
	}
	if (*path != '/' || path[1] == '/')
		return SERVE_NOT_FOUND;
	path = behind_process(path + 1, &r.pid);
	if (!path || (!r.pid && !only))
		return SERVE_NOT_FOUND;
	found = find(path, &r);
	if (found != SERVE_FOUND)
		return found;
	if (!r.pid)
		r.pid = only;
	*ret_wrong = take_seconds(q, &r);
	if (!*ret_wrong)
		*ret_wrong = take_debug(q, &r);
	if (!*ret_wrong)
		*ret_wrong = take_part(q, &r);
	if (!*ret_wrong)
		*ret_wrong = take_format(q, &r);
	if (*ret_wrong)
		return SERVE_WRONG;
	*ret = r;
	return SERVE_FOUND;
}

/* ---- addresses ---- */

size_t serve_addresses(const char *text, uint64_t *ret, size_t most)
{
	size_t count = 0;

	while (*text && count < most) {
		size_t length = strcspn(text, "+ \r\n&");
		char *end;

		errno = 0;
		ret[count] = strtoull(text, &end, 0);
		if (length && *text != '-' && end == text + length && !errno && ret[count])
			count++;
		text += length + (text[length] != 0);
	}
	return count;
}
