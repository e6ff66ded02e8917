#include "hooks/entry_points.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "hooks/request_functions.h"
#include "image/handlers.h"
#include "image/pclntab.h"

enum { MAX_FRAMES = 16, MAX_NAME = 900, MAX_LINES = 20 };

/* Each name is matched once; IS_CLIENT: by CLIENTS_REGEX alone; SAID: it is left out, and why. */
enum { UNKNOWN, MATCHES_NOT, IS_CLIENT, MATCHES, SAID };

/* Arguments on the stack are found behind no larger frame (struct code_site). */
enum { MOST_FRAME = UINT16_MAX - 64 };

/* Of the clients' functions there are no more. */
enum { CLIENTS_MOST = 24 };

_Static_assert(ENTRY_POINTS_MOST + CLIENTS_MOST < AGENT_MAX_ENTRY_POINTS, "handlers fit");

struct search {
	struct target *t;
	const struct image *img;
	int minor;           /* Go 1.N */
	const regex_t *root; /* NULL: the handlers alone */
	regex_t handlers, clients;
	bool no_clients;
	size_t clients_found, clients_hooked;
	struct hooks *hooks;
	struct target_maps maps;
	struct type_data types; /* once they are needed */
	struct map names;       /* a name's address in the table -> UNKNOWN ... */
	size_t matched;         /* functions, by `root` */
	size_t inlined;         /* calls of such functions */
	size_t lines;
};

static bool is_match(const regex_t *regex, const char *name)
{
	return regex && !regexec(regex, name, 0, NULL, 0);
}

/* As HANDLERS_REGEX end: there are 100,000 names, and a regular expression takes 3 us for each.
 */
static bool may_be_handler(const char *name)
{
	static const char *const ends[] = {".ServeHTTP", ".runHandler", ".handleStream"};
	size_t length = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (length > strlen(ends[i]) && !strcmp(name + length - strlen(ends[i]), ends[i]))
			return true;
	return false;
}

static bool is_handler(const struct search *s, const char *name)
{
	return may_be_handler(name) && is_match(&s->handlers, name);
}

/* Likewise. */
static bool is_client(const struct search *s, const char *name)
{
	if (s->no_clients ||
	    (strncmp(name, "database/sql.(*", 15) != 0 && strncmp(name, "net/http.(*", 11) != 0 &&
	     !strstr(name, "/grpc.(*") && !strstr(name, "/fasthttp.(*")))
		return false;
	return is_match(&s->clients, name);
}

/* NULL when there is no memory. */
static uint64_t *match(struct search *s, const char *name)
{
	uint64_t *known = map_at(&s->names, (uintptr_t)name);

	if (!known || *known)
		return known;
	*known = MATCHES_NOT;
	if (is_handler(s, name) || is_match(s->root, name))
		*known = MATCHES;
	else if (is_client(s, name))
		*known = IS_CLIENT;
	return known;
}

static void leave_out(struct search *s, const char *name, const char *why, const char *into)
{
	if (s->lines++ < MAX_LINES)
		strbuf_addf(
			&s->hooks->left_out,
			"%.*s %s%.*s: cannot be hooked; calls are inferred from stacks, so calls that never block or make a system call are missing, and times are inexact\n",
			MAX_NAME, name, why, MAX_NAME, into);
}

/* The name in stacks; NULL for a wrapper that the compiler generated. */
static const char *name_of(const struct search *s, const struct go_func *f)
{
	struct go_frame frames[MAX_FRAMES];
	size_t n =
		pclntab_frames(&s->img->functions, f->entry | STACK_PC_EXACT, frames, MAX_FRAMES);

	return n && !frames[n - 1].wrapper ? frames[n - 1].function : NULL;
}

/* The scheduler is at work there, or our own hooks are. A panic begins as any call of the program's
 * does: on the goroutine's stack, before gopanic takes a lock or leaves it. */
static bool is_runtime(const char *name)
{
	if (!strcmp(name, "runtime.gopanic"))
		return false;
	return !strncmp(name, "runtime.", 8) || !strncmp(name, "runtime/", 8) ||
	       !strncmp(name, "internal/runtime/", 17);
}

/* ---- probe sites ---- */

static bool is_status(const struct request_function *of)
{
	return of && (of->kind == ENTRY_STATUS || of->kind == ENTRY_GRPC_STATUS);
}

/* The registers in which the function gets what the agent reads at its entry, SITE_*. */
static unsigned int arguments_of(const struct search *s, const struct request_function *of)
{
	unsigned int needs = 0;

	if (is_status(of))
		needs = of->kind == ENTRY_STATUS ? SITE_SECOND : SITE_THIRD;
	else if (of && of->kind == ENTRY_ROUTE_FIELD)
		needs = SITE_SECOND;
	else if (of && of->request)
		needs = of->request == REQUEST_IN_THIRD ? SITE_THIRD : SITE_FOURTH;
	return probe_site_needs(s->minor, needs);
}

static unsigned int sites_of(const struct request_function *of)
{
	if (is_status(of) || (of && of->kind == ENTRY_ROUTE_FIELD))
		return SITE_BEGIN;
	return of && (of->kind == ENTRY_ROUTE || of->kind == ENTRY_ROUTE_CHI ||
		      of->kind == ENTRY_ROUTE_GIN)
		       ? SITE_RETURNS
		       : SITE_BEGIN | SITE_RETURNS;
}

/* Two results are a handler, before the pattern in its registers; on the stack both follow two
 * arguments. */
static uint16_t arguments_at(const struct search *s, enum agent_entry_kind kind, int32_t frame)
{
	uint16_t at = probe_site_arguments(s->minor, frame);

	return at && kind == ENTRY_ROUTE ? at + 16 : at;
}

static bool add_site(const struct search *s, const struct go_func *f, const struct probe_site *site,
		     enum agent_entry_kind kind, enum agent_request_place request)
{
	struct hooks *h = s->hooks;
	size_t i = h->site_count - HOOKS;
	int32_t frame = pclntab_sp_delta(f, site->address);

	if (i >= AGENT_MAX_ENTRY_SITES || frame < 0)
		return false;
	h->entry_sites[i] = (struct agent_entry_site){h->entry_point_count, kind, request, frame};
	h->sites[h->site_count] = (struct code_site){.address = site->address,
						     .length = site->length,
						     .relative = site->relative,
						     .arguments = arguments_at(s, kind, frame)};
	memcpy(h->sites[h->site_count++].bytes, site->bytes, sizeof(site->bytes));
	return true;
}

static bool arguments_are_near(const struct search *s, const struct go_func *f,
			       const struct probe_site *site)
{
	return s->minor >= probe_site_first_with_registers ||
	       pclntab_sp_delta(f, site->address) <= MOST_FRAME;
}

static bool add_ends(const struct search *s, const struct go_func *f,
		     const struct probe_site_ends *ends, const struct request_function *of)
{
	enum agent_entry_kind kind = of ? (enum agent_entry_kind)of->kind : ENTRY_CALL;
	enum agent_request_place request = of ? (enum agent_request_place)of->request : 0;
	bool all = true;

	/* Its call alone is recorded then. */
	if (request &&
	    (ends->changed & arguments_of(s, of) || !arguments_are_near(s, f, &ends->begin)))
		request = REQUEST_NOWHERE;
	if (ends->begin.length)
		all = add_site(s, f, &ends->begin, kind, request);
	for (size_t i = 0; all && i < ends->return_count; i++)
		all = add_site(s, f, &ends->returns[i], kind == ENTRY_CALL ? ENTRY_RETURN : kind,
			       0);
	return all;
}

/* All of them or none. */
static const char *add_sites(struct search *s, const struct go_func *f,
			     const struct probe_site_ends *ends, const struct request_function *of)
{
	struct hooks *h = s->hooks;
	size_t before = h->site_count;
	const char *why = NULL;

	if (!add_ends(s, f, ends, of))
		why = "(with the functions before it) has too many return instructions";
	else if (!trampolines_take(&h->trampolines, &s->maps, h->sites + before,
				   h->site_count - before))
		why = "has no free address space nearby for its hooks";
	if (why) {
		memset(h->sites + before, 0, (h->site_count - before) * sizeof(h->sites[0]));
		h->site_count = before;
	}
	return why;
}

/* All of the function's code, which is in memory as it is in the file. */
static struct error *must_check read_code(const struct search *s, const struct go_func *f,
					  uint8_t **ret)
{
	size_t size = f->end - f->entry;
	const uint8_t *file = image_bytes(s->img, f->entry, size);
	_cleanup_free_ uint8_t *code = malloc(size);
	struct error *err = code ? target_read(s->t, f->entry, code, size) : &error_no_memory;

	if (err)
		return err;
	if (!file || memcmp(file, code, size))
		return error_format(ERROR_UNSUPPORTED, "was patched by another tool");
	*ret = take_ptr(code);
	return NULL;
}

static struct error *must_check hook(struct search *s, const struct go_func *f,
				     const struct request_function *of)
{
	_cleanup_free_ uint8_t *code = NULL;
	struct probe_site_ends ends = {0};
	struct error *err = read_code(s, f, &code);
	const char *why;

	if (!err)
		err = probe_site_ends(f->entry, code, f->end - f->entry, sites_of(of),
				      arguments_of(s, of), &ends);
	if (err)
		return err;
	if (of && of->kind != ENTRY_CALL && ends.changed & arguments_of(s, of))
		why = "has moved its arguments";
	else
		why = add_sites(s, f, &ends, of);
	free(ends.returns);
	if (why)
		return error_format(ERROR_UNSUPPORTED, "%s", why);
	if (!of || of->kind == ENTRY_CALL)
		s->hooks->entry_points[s->hooks->entry_point_count++] = f->entry;
	return NULL;
}

/* Says where the string is that the function's hook reads. */
static struct error *must_check set_field(struct search *s, const struct request_function *of,
					  size_t first)
{
	struct error *err = NULL;
	uint32_t place;

	if (!s->types.bytes)
		err = type_data_read(s->t, s->img, s->minor, &s->types);
	if (err)
		return err;
	/* The agent reads nothing where nothing can be. */
	if (!request_function_field(of, &s->types, &place))
		place = AGENT_FIELD(0, UINT16_MAX);
	for (size_t i = first; i < s->hooks->site_count; i++)
		s->hooks->entry_sites[i - HOOKS].frame = place;
	return NULL;
}

/* A function in which more of a request becomes known. */
static struct error *must_check add_fact(struct search *s, const struct go_func *f,
					 const struct request_function *of)
{
	size_t first = s->hooks->site_count;
	struct error *err = hook(s, f, of);

	if (!err && of->kind == ENTRY_ROUTE_FIELD)
		err = set_field(s, of, first);
	if (!err || err->code != ERROR_UNSUPPORTED)
		return err;
	strbuf_addf(&s->hooks->left_out, "%.*s %s: cannot be hooked; requests lack %s\n", MAX_NAME,
		    f->name, err->message, of->gives);
	error_destroy(err);
	return NULL;
}

/* One that cannot be hooked is missing among the parts of requests. */
static struct error *must_check add_client(struct search *s, const struct go_func *f)
{
	struct error *err = NULL;

	if (s->clients_found++ < CLIENTS_MOST &&
	    s->hooks->entry_point_count < AGENT_MAX_ENTRY_POINTS)
		err = hook(s, f, NULL);
	else
		return NULL;
	s->clients_hooked += !err;
	if (!err || err->code != ERROR_UNSUPPORTED)
		return err;
	error_destroy(err);
	return NULL;
}

static struct error *must_check add_function(struct search *s, const struct go_func *f,
					     const char *name)
{
	const struct request_function *of = request_function_of(name, s->minor);
	struct error *err;

	if (s->hooks->entry_point_count == AGENT_MAX_ENTRY_POINTS)
		return NULL;
	if (is_runtime(name))
		err = error_format(ERROR_UNSUPPORTED, "belongs to the runtime");
	else if (strlen(name) > MAX_NAME)
		err = error_format(ERROR_UNSUPPORTED, "has a name that is too long");
	else
		err = hook(s, f, of && of->kind == ENTRY_CALL ? of : NULL);
	if (!err || err->code != ERROR_UNSUPPORTED)
		return err;
	leave_out(s, name, err->message, "");
	error_destroy(err);
	return NULL;
}

/* ---- functions ---- */

/* Handlers are called by code of the same package, so other code is not examined. */
static bool may_inline_entry_points(const struct search *s, const struct go_func *f)
{
	return s->root || !strncmp(f->name, "net/http", 8) || strstr(f->name, "golang.org/grpc.") ||
	       strstr(f->name, "/http2.");
}

static void look_for_inlined(struct search *s, const struct go_func *f)
{
	size_t count = may_inline_entry_points(s, f) ? pclntab_inlined_count(f) : 0;

	for (size_t i = 0; i < count; i++) {
		const char *name = pclntab_inlined(f, i);
		uint64_t *known = name ? match(s, name) : NULL;

		if (!name)
			break;
		if (!known || *known != MATCHES)
			continue;
		s->inlined++;
		*known = SAID;
		leave_out(s, name, "is inlined, for example into ", f->name);
	}
}

static struct error *must_check look_at(struct search *s, const struct go_func *f)
{
	const char *name = name_of(s, f);
	const struct request_function *of = name ? request_function_of(name, s->minor) : NULL;
	uint64_t *known;

	look_for_inlined(s, f);
	if (of && of->kind != ENTRY_CALL && !is_match(s->root, name))
		return add_fact(s, f, of);
	known = name ? match(s, name) : NULL;
	if (known && *known == IS_CLIENT)
		return add_client(s, f);
	if (!known || *known < MATCHES)
		return NULL;
	s->matched += is_match(s->root, name);
	return add_function(s, f, name);
}

/* A --root that matches no function, or too many, is an error. */
static struct error *must_check check_matched(const struct search *s)
{
	if (s->root && !s->matched && !s->inlined)
		return error_format(
			ERROR_FAILED,
			"--root matches no function of the program, or it is inlined everywhere; "
			"`go tool nm` lists the functions");
	if (s->matched > ENTRY_POINTS_MOST)
		return error_format(
			ERROR_FAILED,
			"--root matches %zu functions, and the limit is %d; use a more specific "
			"regular expression, such as '^main\\.handle$'",
			s->matched, ENTRY_POINTS_MOST);
	return NULL;
}

static struct error *must_check look_at_all(struct search *s)
{
	struct error *err = target_maps(s->t, &s->maps);
	struct go_func f;

	for (size_t i = 0; !err && i < s->img->functions.count; i++)
		if (pclntab_function(&s->img->functions, i, &f))
			err = look_at(s, &f);
	if (!err)
		err = check_matched(s);
	if (s->clients_found && !s->clients_hooked)
		strbuf_adds(
			&s->hooks->left_out,
			"database/sql and the clients of net/http, gRPC and fasthttp: no function can be hooked; requests lack their calls\n");
	if (s->lines > MAX_LINES)
		strbuf_addf(&s->hooks->left_out,
			    "%zu more functions are left out for the same reasons\n",
			    s->lines - MAX_LINES);
	if (!err && s->hooks->left_out.failed)
		err = &error_no_memory;
	return err;
}

struct error *entry_points_find(struct target *t, const struct image *img,
				const struct golayout *lay, const struct inject_options *options,
				struct hooks *hooks)
{
	struct search s = {.t = t,
			   .no_clients = options->no_names,
			   .img = img,
			   .minor = options->no_names ? 0 : lay->minor,
			   .root = options->root,
			   .hooks = hooks};
	struct error *err;

	if (regcomp(&s.handlers, HANDLERS_REGEX, REG_EXTENDED | REG_NOSUB))
		return &error_no_memory;
	if (regcomp(&s.clients, CLIENTS_REGEX, REG_EXTENDED | REG_NOSUB)) {
		regfree(&s.handlers);
		return &error_no_memory;
	}
	err = look_at_all(&s);
	regfree(&s.handlers);
	regfree(&s.clients);
	map_release(&s.names);
	target_maps_release(&s.maps);
	type_data_release(&s.types);
	return err;
}
