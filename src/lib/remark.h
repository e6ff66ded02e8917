/* The receiver of remarks: one line for each shortcoming of a result. */
#ifndef LIB_REMARK_H
#define LIB_REMARK_H

struct remark {
	void (*report)(void *arg, const char *line); /* NULL: no receiver */
	void *arg;
};

void remark(const struct remark *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
