/* The name of a user. */
#ifndef BASE_USER_NAME_H
#define BASE_USER_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * False if the user has no name here. By the system's name service. A static gospect reads
 * /etc/passwd alone: the name service is made of shared libraries, which must be of the very C
 * library that gospect is linked with.
 */
bool user_name_find(uid_t uid, char *ret, size_t size);

#endif
