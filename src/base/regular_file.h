/* A file whose name came from outside: from a recording, a core file or a target's mappings. */
#ifndef BASE_REGULAR_FILE_H
#define BASE_REGULAR_FILE_H

/*
 * Opens it for reading if it is a file or a directory. Otherwise -1 and errno, EMEDIUMTYPE for a
 * device, a pipe or a socket. These are not even opened: opening a pipe blocks, and some devices
 * act when root opens them.
 */
int regular_file_open(const char *path);

#endif
