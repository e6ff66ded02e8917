/* The server's own pages, and its metrics. All text of processes is escaped. */
#ifndef SERVE_SERVE_PAGE_H
#define SERVE_SERVE_PAGE_H

#include <gospect/processes.h>
#include <gospect/target.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "serve/serve_request.h"

/* By enum serve_kind: how many stacks each of the runtime's profiles has. */
struct serve_counts {
	uint64_t stacks[SERVE_KINDS];
	bool unknown[SERVE_KINDS]; /* the program does not keep it */
};

/* The parts of every page. `style`: CSS of this page alone. */
void serve_page_begin(struct strbuf *page, const char *title, const char *style);
void serve_page_end(struct strbuf *page);

/* /debug/pprof/ of one process; its links are relative. */
void serve_page_index(struct strbuf *page, const struct gospect_target_info *target,
		      const struct serve_counts *counts, bool traces);

/* A row of the page with all processes, and the page of such rows. */
void serve_page_add_process(struct strbuf *rows, const struct gospect_go_process *process);
void serve_page_home(struct strbuf *page, const struct strbuf *rows);

/* What the server itself does. */
struct serve_tally {
	uint64_t answered[5]; /* requests, by the first digit of their status, less one */
	size_t working;       /* requests that have a worker */
	size_t connections;
};

/* The lines of /metrics about the server; those about processes follow. */
void serve_metrics_server(struct strbuf *page, const struct serve_tally *tally);

/* Lines of one process for /metrics, and the text of such lines. */
void serve_metrics_add_process(struct strbuf *lines, const struct gospect_go_process *process);
void serve_metrics_page(struct strbuf *page, const struct strbuf *lines);

#endif
