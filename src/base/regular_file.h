/* A file whose name came from outside: from a recording, a core file or a target's mappings. */
#ifndef BASE_REGULAR_FILE_H
#define BASE_REGULAR_FILE_H

/*
 * Opens it for reading when it is a file or a folder; -1 and errno otherwise, EMEDIUMTYPE when it
 * is a device, a pipe or a socket. These are not even opened: a pipe would make us wait, and some
 * devices do something when root opens them.
 */
int regular_file_open(const char *path);

#endif
