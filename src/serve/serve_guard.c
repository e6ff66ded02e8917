#include "serve/serve_guard.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve_names.h"
#include "serve/serve_route.h"

#define HTTP_PORT 80
#define HTTPS_PORT 443

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* ---- Host ---- */

static enum MHD_Result count_host(void *arg, enum MHD_ValueKind kind, const char *key,
				  const char *value)
{
	*(int *)arg += !strcasecmp(key, MHD_HTTP_HEADER_HOST);
	return MHD_YES;
}

static bool has_our_host(const struct serve_front_options *o, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	const char *host = header(connection, MHD_HTTP_HEADER_HOST);
	struct sockaddr_storage local;
	socklen_t size = sizeof(local);
	int hosts = 0;

	MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &hosts);
	if (!info || !host || hosts != 1 ||
	    getsockname(info->connect_fd, (struct sockaddr *)&local, &size))
		return false;
	return serve_host_is_ours(host, &local, o->names, o->certificate ? HTTPS_PORT : HTTP_PORT);
}

/* ---- the token ---- */

/* Takes as long for each text of one length. */
static bool is_token(const char *token, const char *text)
{
	size_t n = strlen(token), given = strlen(text);
	unsigned char differs = n != given;

	for (size_t i = 0; i < n; i++)
		differs |= token[i] ^ text[i < given ? i : 0];
	return !differs;
}

/* "Authorization: Bearer TOKEN"; or as a password, for programs that take a URL alone. */
static bool has_token(const char *token, struct MHD_Connection *connection)
{
	const char *given = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
	char *password = NULL, *user;
	bool right;

	if (!given)
		return false;
	if (!strncasecmp(given, "Bearer ", 7))
		return is_token(token, given + 7);
	user = MHD_basic_auth_get_username_password(connection, &password);
	right = password && is_token(token, password);
	MHD_free(user);
	MHD_free(password);
	return right;
}

/* ---- the certificate ---- */

static bool has_certificate(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	unsigned int problems;

	return info && info->tls_session &&
	       !gnutls_certificate_verify_peers2((gnutls_session_t)info->tls_session, &problems) &&
	       !problems;
}

/* ---- all ---- */

/* A page of another site may make the browser ask for any URL, although it cannot read the answer.
 * It may link here. */
static bool is_of_another_site(struct MHD_Connection *connection, const char *path)
{
	const char *site = header(connection, "Sec-Fetch-Site");

	return site && strcmp(path, "/") &&
	       (!strcmp(site, "cross-site") || !strcmp(site, "same-site"));
}

static bool is_allowed_method(const char *method, const char *path)
{
	const char *end = strrchr(path, '/');

	if (!strcmp(method, MHD_HTTP_METHOD_POST))
		return end && !strcmp(end, "/symbol");
	return !strcmp(method, MHD_HTTP_METHOD_GET);
}

unsigned int serve_guard(const struct serve_front_options *o, struct MHD_Connection *connection,
			 const char *method, const char *path, const char **ret_text)
{
	if (!has_our_host(o, connection)) {
		*ret_text = "the Host of this request is not this server's; see --name";
		return MHD_HTTP_FORBIDDEN;
	}
	if (o->client_ca && !has_certificate(connection)) {
		*ret_text = "this server needs a client certificate";
		return MHD_HTTP_FORBIDDEN;
	}
	if (o->token && !has_token(o->token, connection)) {
		*ret_text = "this server needs a token: Authorization: Bearer TOKEN";
		return MHD_HTTP_UNAUTHORIZED;
	}
	if (is_of_another_site(connection, path)) {
		*ret_text = "a page of another site asked for this";
		return MHD_HTTP_FORBIDDEN;
	}
	if (!is_allowed_method(method, path)) {
		*ret_text = "only GET is allowed here";
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	}
	return 0;
}
