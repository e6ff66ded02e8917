/* What a process that was forked for one task does with the descriptors that it inherits. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

/* Closes the open ones from `first` to `last`. */
void descriptors_close(unsigned int first, unsigned int last);
/* Closes all but these two, which may be the same; 0, 1 and 2 lead to /dev/null instead. */
void descriptors_keep(int a, int b);

#endif
