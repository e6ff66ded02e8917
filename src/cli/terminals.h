/* Descriptions of terminals, for machines and containers that have none. By terminals.py. */
#ifndef CLI_TERMINALS_H
#define CLI_TERMINALS_H

struct terminal {
	const char *beginning;   /* of the names in TERM that it fits */
	const char *name;        /* its own */
	const char *description; /* as a value of TERMINFO: ncurses(3) */
};

/* The last one has no name. */
extern const struct terminal terminals[];

#endif
