/* The receiver of remarks: what a result lacks, in words. */
#ifndef LIB_REMARK_H
#define LIB_REMARK_H

struct remark {
	void (*tell)(void *arg, const char *line); /* NULL: nobody */
	void *arg;
};

void remark(const struct remark *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
