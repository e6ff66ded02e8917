/* The names by which the server may be asked: the check against DNS rebinding. A page of another
 * site can lead its own name to this machine, but its requests have that name in their Host. */
#ifndef SERVE_SERVE_NAMES_H
#define SERVE_SERVE_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Where to listen, from "HOST:PORT", "[::1]:PORT" or ":PORT". False: it is none of these, or HOST
 * is neither an address nor localhost. Port 0 takes a free one. */
bool serve_address_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_size);
bool serve_address_is_loopback(const struct sockaddr_storage *address);
uint16_t serve_address_port(const struct sockaddr_storage *address);
/* "127.0.0.1:6060", "[::1]:6060". */
#define SERVE_ADDRESS_SIZE 64
void serve_address_text(const struct sockaddr_storage *address, char ret[SERVE_ADDRESS_SIZE]);

/*
 * Whether a request with this Host may be answered, that came in at the address `local`: the Host
 * is this address; of a loopback address also localhost or another loopback address; or one of
 * `names`, which ends with NULL. The port has to be that of `local`; where that is `usual` (80 or
 * 443), it may be missing.
 */
bool serve_host_is_ours(const char *host, const struct sockaddr_storage *local,
			const char *const *names, uint16_t usual);

#endif
