#include "serve/serve_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- addresses ---- */

/* Splits "HOST:PORT", "[HOST]:PORT" and, with *ret_port "", "HOST". */
static bool split(const char *text, char host[256], const char **ret_port)
{
	const char *end = *text == '[' ? strchr(text, ']') : text + strcspn(text, ":");
	size_t length;

	if (!end)
		return false;
	if (*text == '[')
		text++;
	length = end - text;
	if (length > 255)
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	if (*end == ']')
		end++;
	if (*end && *end != ':')
		return false;
	*ret_port = *end ? end + 1 : "";
	return true;
}

static bool parse_port(const char *text, uint16_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long port;

	if (!digits || digits > 5 || text[digits])
		return false;
	port = strtoul(text, NULL, 10);
	*ret = (uint16_t)port;
	return port <= UINT16_MAX;
}

/* An address in text; not a name. */
static bool parse_host(const char *host, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
		memcpy(ret, &v4, sizeof(v4));
		*ret_size = sizeof(v4);
		return true;
	}
	if (inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
		return false;
	memcpy(ret, &v6, sizeof(v6));
	*ret_size = sizeof(v6);
	return true;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

bool serve_address_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	const char *port_text;
	char host[256];
	uint16_t port;

	if (!split(text, host, &port_text) || !parse_port(port_text, &port))
		return false;
	if (!*host && *text != '[')
		strcpy(host, "::");
	if (!strcasecmp(host, "localhost"))
		strcpy(host, "127.0.0.1");
	if (!parse_host(host, ret, ret_size))
		return false;
	set_port(ret, port);
	return true;
}

/* 127.0.0.0/8, also as ::ffff:127.0.0.1, and ::1. */
bool serve_address_is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

	if (address->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return v6->sin6_addr.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

uint16_t serve_address_port(const struct sockaddr_storage *address)
{
	return ntohs(address->ss_family == AF_INET6
			     ? ((const struct sockaddr_in6 *)address)->sin6_port
			     : ((const struct sockaddr_in *)address)->sin_port);
}

void serve_address_text(const struct sockaddr_storage *address, char ret[SERVE_ADDRESS_SIZE])
{
	bool is_v6 = address->ss_family == AF_INET6;
	char host[INET6_ADDRSTRLEN] = "";

	if (is_v6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, host,
			  sizeof(host));
	else
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host,
			  sizeof(host));
	snprintf(ret, SERVE_ADDRESS_SIZE, is_v6 ? "[%s]:%u" : "%s:%u", host,
		 serve_address_port(address));
}

/* ---- Host ---- */

/* The bytes of an address; an IPv4 address in IPv6 is that IPv4 address. */
static size_t bytes_of(const struct sockaddr_storage *address, const uint8_t **ret)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	if (address->ss_family == AF_INET) {
		*ret = (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
		return 4;
	}
	*ret = v6->sin6_addr.s6_addr;
	if (!IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return 16;
	*ret += 12;
	return 4;
}

static bool is_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const uint8_t *left, *right;
	size_t n = bytes_of(a, &left);

	return bytes_of(b, &right) == n && !memcmp(left, right, n);
}

static bool is_named(const char *host, const char *const *names)
{
	for (; names && *names; names++)
		if (!strcasecmp(host, *names))
			return true;
	return false;
}

bool serve_host_is_ours(const char *text, const struct sockaddr_storage *local,
			const char *const *names, uint16_t usual)
{
	bool is_loopback = serve_address_is_loopback(local);
	struct sockaddr_storage address;
	const char *port_text;
	socklen_t size;
	char host[256];
	uint16_t port = usual;

	if (!split(text, host, &port_text) || !*host)
		return false;
	if (*port_text && !parse_port(port_text, &port))
		return false;
	if (port != serve_address_port(local))
		return false;
	if (is_named(host, names) || (is_loopback && !strcasecmp(host, "localhost")))
		return true;
	if (!parse_host(host, &address, &size))
		return false;
	return is_same_address(&address, local) ||
	       (is_loopback && serve_address_is_loopback(&address));
}
