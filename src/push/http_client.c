#include "push/http_client.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"

/* Of a server's answer. */
#define MOST_ANSWER (64u << 10)
#define CONNECT_MS 10000L
/* A head of gRPC: whether it is compressed, and the size. */
#define GRPC_HEAD 5

/* The functions of libcurl that are used. */
#define CURL_FUNCTIONS(f)                                                                 \
	f(curl_global_init) f(curl_easy_init) f(curl_easy_cleanup) f(curl_easy_reset)     \
		f(curl_easy_setopt) f(curl_easy_perform) f(curl_easy_getinfo)             \
			f(curl_easy_strerror) f(curl_slist_append) f(curl_slist_free_all) \
				f(curl_version_info)

/* curl's own macros check arguments of calls by name; ours are calls by pointer. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

struct functions {
#define MEMBER(name) __typeof__(name) *name;
	CURL_FUNCTIONS(MEMBER)
#undef MEMBER
};

struct http_client {
	struct functions f;
	const struct http_options *o;
	CURL *curl;
	struct curl_slist *headers;
	char authorities[32]; /* the name of a file with them; "": libcurl's own */
	struct strbuf body;   /* of the answer */
	struct http_answer *answer;
	char why[CURL_ERROR_SIZE];
};

#ifdef GOSPECT_STATIC
static struct error *must_check load(struct functions *ret)
{
#define TAKE(name) ret->name = name;
	CURL_FUNCTIONS(TAKE)
#undef TAKE
	return NULL;
}
#else
static struct error *must_check load(struct functions *ret)
{
	static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
	void *library = NULL;

	for (size_t i = 0; !library && i < ARRAY_SIZE(names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return error_format(
			ERROR_FAILED,
			"cannot load libcurl, which sends profiles: %s; install libcurl4",
			dlerror());
#define TAKE(name)                         \
	ret->name = dlsym(library, #name); \
	if (!ret->name)                    \
		return error_format(ERROR_FAILED, "libcurl lacks the function " #name);
	CURL_FUNCTIONS(TAKE)
#undef TAKE
	return NULL;
}
#endif

static struct error *must_check check_features(const struct http_client *c)
{
	const curl_version_info_data *version = c->f.curl_version_info(CURLVERSION_NOW);
	bool tls = !strncasecmp(c->o->url, "https:", 6);

	if (tls && !(version->features & CURL_VERSION_SSL))
		return error_format(ERROR_FAILED, "libcurl %s has no TLS", version->version);
	if (tls && !c->o->authorities && !version->cainfo && !version->capath)
		return error_format(
			ERROR_FAILED,
			"there are no certificates of authorities on this machine; give "
			"--ca-file FILE, or install ca-certificates");
	if (c->o->is_grpc && !(version->features & CURL_VERSION_HTTP2))
		return error_format(ERROR_FAILED, "libcurl %s has no HTTP/2, which gRPC needs",
				    version->version);
	return NULL;
}

/*
 * Not every libcurl takes certificates from memory, so they are in a file without a name. It stays
 * open.
 */
static struct error *must_check keep_authorities(struct http_client *c)
{
	const struct http_options *o = c->o;
	int fd;

	if (!o->authorities)
		return NULL;
	fd = memfd_create("authorities", MFD_CLOEXEC);
	if (fd < 0 ||
	    write(fd, o->authorities, o->authorities_size) != (ssize_t)o->authorities_size)
		return error_errno(ERROR_FAILED, errno, "cannot keep the certificates in memory");
	snprintf(c->authorities, sizeof(c->authorities), "/proc/self/fd/%d", fd);
	return NULL;
}

struct error *http_client_open(const struct http_options *o, struct http_client **ret)
{
	_cleanup_free_ struct http_client *c = calloc(1, sizeof(*c));
	struct error *err;

	if (!c)
		return &error_no_memory;
	c->o = o;
	c->body = (struct strbuf)STRBUF_INIT;
	err = load(&c->f);
	if (err)
		return err;
	if (c->f.curl_global_init(CURL_GLOBAL_DEFAULT))
		return error_format(ERROR_FAILED, "libcurl does not start");
	err = check_features(c);
	if (!err)
		err = keep_authorities(c);
	if (err)
		return err;
	c->curl = c->f.curl_easy_init();
	if (!c->curl)
		return &error_no_memory;
	*ret = take_ptr(c);
	return NULL;
}

/* ---- one request ---- */

static void add_header(struct http_client *c, const char *line)
{
	struct curl_slist *longer = c->f.curl_slist_append(c->headers, line);

	c->headers = longer ? longer : c->headers;
}

static void add_headers(struct http_client *c)
{
	char line[128];

	snprintf(line, sizeof(line), "Content-Type: %s",
		 c->o->is_grpc ? "application/grpc" : c->o->content_type);
	add_header(c, line);
	add_header(c, "Expect:"); /* the body is sent at once */
	if (c->o->is_grpc) {
		add_header(c, "TE: trailers");
		if (c->o->is_gzipped)
			add_header(c, "grpc-encoding: gzip");
	} else if (c->o->is_gzipped) {
		add_header(c, "Content-Encoding: gzip");
	}
	for (const char *const *h = c->o->headers; h && *h; h++)
		add_header(c, *h);
}

static size_t take_body(char *bytes, size_t one, size_t size, void *arg)
{
	struct http_client *c = arg;
	size_t room = MOST_ANSWER - c->body.length;

	strbuf_add(&c->body, bytes, size < room ? size : room);
	return size;
}

/* The value of a header with this name, in lower case; NULL: it is another one. */
static const char *value_of(const char *line, const char *name)
{
	size_t length = strlen(name);

	if (strncasecmp(line, name, length) || line[length] != ':')
		return NULL;
	return line + length + 1 + strspn(line + length + 1, " \t");
}

/* In seconds; the other form, a date, is not used by these servers. */
static size_t take_header(char *bytes, size_t one, size_t size, void *arg)
{
	struct http_answer *answer = ((struct http_client *)arg)->answer;
	char line[512];
	const char *value;

	snprintf(line, sizeof(line), "%.*s", (int)size, bytes);
	line[strcspn(line, "\r\n")] = '\0';
	if ((value = value_of(line, "retry-after")))
		answer->retry_after = atof(value);
	else if ((value = value_of(line, "grpc-status")))
		answer->grpc_status = atoi(value);
	else if ((value = value_of(line, "grpc-message")))
		snprintf(answer->text, sizeof(answer->text), "%s", value);
	return size;
}

/* A token goes in the header, or, if the URL names a user, as that user's password. */
static void authorize(struct http_client *c, const char *token)
{
	const char *host = strstr(c->o->url, "://"), *at = host ? strpbrk(host + 3, "@/") : NULL;
	char line[4096 + 32];

	if (!*token)
		return;
	if (at && *at == '@') {
		c->f.curl_easy_setopt(c->curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		c->f.curl_easy_setopt(c->curl, CURLOPT_PASSWORD, token);
		return;
	}
	snprintf(line, sizeof(line), "Authorization: Bearer %s", token);
	add_header(c, line);
}

static long http_version(const struct http_client *c)
{
	if (!c->o->is_grpc)
		return CURL_HTTP_VERSION_2TLS;
	return strncasecmp(c->o->url, "https:", 6) ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
						   : CURL_HTTP_VERSION_2TLS;
}

static void set_options(struct http_client *c, const void *body, size_t size)
{
	CURL *curl = c->curl;
	__typeof__(c->f.curl_easy_setopt) set = c->f.curl_easy_setopt;

	c->f.curl_easy_reset(curl); /* keeps the connection */
	set(curl, CURLOPT_URL, c->o->url);
	set(curl, CURLOPT_NOSIGNAL, 1L);
	set(curl, CURLOPT_HTTP_VERSION, http_version(c));
	/* curl 7.88 begins HTTP/2 anew on a connection without TLS that it uses again, and fails.
	 */
	if (http_version(c) == CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)
		set(curl, CURLOPT_FORBID_REUSE, 1L);
	set(curl, CURLOPT_USERAGENT, "gospect/" GOSPECT_VERSION);
	set(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	set(curl, CURLOPT_TIMEOUT_MS, (long)(c->o->timeout * 1000));
	set(curl, CURLOPT_ERRORBUFFER, c->why);
	set(curl, CURLOPT_POST, 1L);
	set(curl, CURLOPT_POSTFIELDS, body);
	set(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
	set(curl, CURLOPT_WRITEFUNCTION, take_body);
	set(curl, CURLOPT_WRITEDATA, c);
	set(curl, CURLOPT_HEADERFUNCTION, take_header);
	set(curl, CURLOPT_HEADERDATA, c);
	if (*c->authorities)
		set(curl, CURLOPT_CAINFO, c->authorities);
}

/* c-ares, in a static gospect, reads /etc/resolv.conf once: the next request may find another. */
static void forget_resolver(struct http_client *c)
{
	CURL *fresh = c->f.curl_easy_init();

	if (!fresh)
		return;
	c->f.curl_easy_cleanup(c->curl);
	c->curl = fresh;
}

static void perform(struct http_client *c, struct http_answer *ret)
{
	CURLcode failed = c->f.curl_easy_perform(c->curl);
	long status = 0;

	if (failed) {
		snprintf(ret->text, sizeof(ret->text), "%s",
			 *c->why ? c->why : c->f.curl_easy_strerror(failed));
		if (failed == CURLE_COULDNT_RESOLVE_HOST)
			forget_resolver(c);
		return;
	}
	c->f.curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	ret->status = status;
	if (!*ret->text && !c->o->is_grpc)
		snprintf(ret->text, sizeof(ret->text), "%.*s", (int)strcspn(c->body.data, "\r\n"),
			 c->body.data);
}

/* The body behind gRPC's head. NULL: no memory. */
static uint8_t *frame(const struct http_client *c, const void *body, size_t size)
{
	uint8_t *framed = malloc(GRPC_HEAD + size);

	if (!framed)
		return NULL;
	framed[0] = c->o->is_gzipped;
	for (int i = 0; i < 4; i++)
		framed[1 + i] = size >> (24 - 8 * i);
	memcpy(framed + GRPC_HEAD, body, size);
	return framed;
}

void http_client_send(struct http_client *c, const void *body, size_t size, const char *token,
		      struct http_answer *ret)
{
	_cleanup_free_ uint8_t *framed = c->o->is_grpc ? frame(c, body, size) : NULL;

	*ret = (struct http_answer){.grpc_status = -1};
	if (c->o->is_grpc && !framed) {
		snprintf(ret->text, sizeof(ret->text), "no memory");
		return;
	}
	c->answer = ret;
	c->why[0] = '\0';
	strbuf_reset(&c->body);
	set_options(c, framed ? framed : body, size + (framed ? GRPC_HEAD : 0));
	add_headers(c);
	authorize(c, token);
	c->f.curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
	perform(c, ret);
	c->f.curl_slist_free_all(c->headers);
	c->headers = NULL;
}
