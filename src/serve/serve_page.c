#include "serve/serve_page.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/printable.h"
#include "serve/serve_route.h"

/* Escapes what is not printable, and what HTML gives a meaning to. */
static void add_html(struct strbuf *sb, const char *text)
{
	struct strbuf plain = STRBUF_INIT;

	printable_adds(&plain, text);
	for (const char *c = plain.data; *c; c++) {
		static const char *const entities[] =
			{['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"};
		unsigned char byte = *c;

		if (byte < ARRAY_SIZE(entities) && entities[byte])
			strbuf_adds(sb, entities[byte]);
		else
			strbuf_addc(sb, *c);
	}
	sb->failed |= plain.failed;
	strbuf_release(&plain);
}

void serve_page_begin(struct strbuf *page, const char *title, const char *style)
{
	strbuf_adds(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			  "<meta name=\"viewport\" content=\"width=device-width\">\n");
	strbuf_adds(page, "<title>");
	add_html(page, title);
	strbuf_adds(page, "</title>\n<style>\n"
			  ":root{color-scheme:light dark}\n"
			  "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;"
			  "padding:0 1em}\n"
			  "h1{font-size:1.3em}h2{font-size:1.1em;margin-top:1.5em}\n"
			  "table{border-collapse:collapse}\n"
			  "th,td{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}\n"
			  "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\n"
			  "tr+tr td{border-top:1px solid #8883}\n"
			  "code{font-size:.95em;overflow-wrap:anywhere}.dim{opacity:.7}\n");
	strbuf_adds(page, style);
	strbuf_adds(page, "</style>\n</head>\n<body>\n<h1>");
	add_html(page, title);
	strbuf_adds(page, "</h1>\n");
}

void serve_page_end(struct strbuf *page)
{
	strbuf_adds(page, "</body>\n</html>\n");
}

/* ---- one process ---- */

static const struct {
	uint32_t kind;
	const char *text;
} described[] = {
	{SERVE_ALLOCS, "all past memory allocations, sampled"},
	{SERVE_BLOCK,
	 "stacks that waited for synchronization; empty without runtime.SetBlockProfileRate"},
	{SERVE_CMDLINE, "the command line of the program"},
	{SERVE_GOROUTINE, "stacks of all goroutines; debug=2 prints them as a panic does"},
	{SERVE_GOROUTINELEAK,
	 "stacks of goroutines that nothing can wake any more; debug=2 prints all, "
	 "and marks these"},
	{SERVE_HEAP, "memory allocations of live objects, sampled"},
	{SERVE_MUTEX, "stacks that held contended mutexes; empty without "
		      "runtime.SetMutexProfileFraction"},
	{SERVE_PROFILE, "CPU profile; seconds=30"},
	{SERVE_SYMBOL, "names of functions at addresses: symbol?0x4a1+0x4b2"},
	{SERVE_THREADCREATE, "stacks that led to new threads"},
	{SERVE_TRACE, "execution trace; seconds=1. It writes to the program while it runs"},
};

static void add_kind(struct strbuf *page, uint32_t kind, const char *text,
		     const struct serve_counts *counts)
{
	const char *name = serve_kind_name(kind);
	bool is_kept = kind >= SERVE_HEAP && kind <= SERVE_GOROUTINELEAK;

	strbuf_adds(page, "<tr><td class=\"n\">");
	if (is_kept && counts->unknown[kind])
		strbuf_adds(page, "&ndash;");
	else if (is_kept)
		strbuf_addf(page, "%" PRIu64, counts->stacks[kind]);
	strbuf_addf(page, "</td><td><a href=\"%s%s\">%s</a></td><td>", name,
		    is_kept ? "?debug=1" : "", name);
	add_html(page, text);
	strbuf_adds(page, "</td></tr>\n");
}

void serve_page_index(struct strbuf *page, const struct gospect_target_info *target,
		      const struct serve_counts *counts, bool traces)
{
	serve_page_begin(page, "/debug/pprof/", "");
	strbuf_addf(page, "<p>Process %d: <code>", target->pid);
	add_html(page, target->exe);
	strbuf_adds(page, "</code>, ");
	add_html(page, target->go_version);
	strbuf_adds(page, ". Set <code>debug=1</code> as a query parameter to get text.</p>\n"
			  "<h2>Types of profiles available:</h2>\n<table>\n"
			  "<tr><th class=\"n\">Count</th><th>Profile</th><th></th></tr>\n");
	for (size_t i = 0; i < ARRAY_SIZE(described); i++)
		if (described[i].kind != SERVE_TRACE || traces)
			add_kind(page, described[i].kind, described[i].text, counts);
	strbuf_addf(page, "</table>\n<p><a href=\"/%d/\">the last hour</a></p>\n", target->pid);
	strbuf_adds(
		page,
		"<p><a href=\"goroutine?debug=2\">full goroutine stack dump</a></p>\n"
		"<h2>More of gospect:</h2>\n<ul>\n"
		"<li><a href=\"../../wall?seconds=5&amp;format=html\">wall</a>: where all "
		"goroutines spend their time</li>\n"
		"<li><a href=\"../../offcpu?seconds=5&amp;format=html\">offcpu</a>: where they "
		"wait</li>\n"
		"<li><a href=\"../../waits?format=text\">waits</a>: who waits for whom</li>\n"
		"<li><a href=\"../../why?seconds=5\">why</a>: what is wrong</li>\n"
		"<li><a href=\"../../leaks?format=text\">leaks</a>: goroutines that nothing can wake</li>\n"
		"<li><a href=\"../../memory?format=html\">memory</a>: where the resident "
		"memory is</li>\n"
		"</ul>\n");
	serve_page_end(page);
}

/* ---- all processes ---- */

static void add_count(struct strbuf *sb, int64_t count)
{
	strbuf_adds(sb, "<td class=\"n\">");
	if (count >= 0)
		strbuf_addf(sb, "%" PRId64, count);
	strbuf_adds(sb, "</td>");
}

void serve_page_add_process(struct strbuf *rows, const struct gospect_go_process *p)
{
	strbuf_addf(rows, "<tr><td class=\"n\">%d</td><td>", p->pid);
	if (!*p->problem)
		strbuf_addf(rows, "<a href=\"/%d/debug/pprof/\">", p->pid);
	add_html(rows, p->name);
	strbuf_addf(rows, "%s</td><td>", *p->problem ? "" : "</a>");
	add_html(rows, p->go_version);
	strbuf_adds(rows, "</td>");
	add_count(rows, p->goroutines);
	add_count(rows, p->threads ? (int64_t)p->threads : -1);
	strbuf_adds(rows, "<td>");
	if (!*p->problem)
		strbuf_addf(rows,
			    "<a href=\"/%d/\"><img src=\"/%d/hour.svg\" width=\"216\" "
			    "height=\"24\" alt=\"the last hour\"></a>",
			    p->pid, p->pid);
	strbuf_adds(rows, "</td><td><code>");
	add_html(rows, *p->problem ? p->problem : p->command);
	strbuf_adds(rows, "</code></td><td>");
	if (!*p->problem)
		strbuf_addf(rows,
			    "<a href=\"/%d/\">hour</a> "
			    "<a href=\"/%d/wall?seconds=5&amp;format=html\">wall</a> "
			    "<a href=\"/%d/waits?format=text\">waits</a> "
			    "<a href=\"/%d/debug/pprof/goroutine?debug=2\">goroutines</a>",
			    p->pid, p->pid, p->pid, p->pid);
	strbuf_adds(rows, "</td></tr>\n");
}

void serve_page_home(struct strbuf *page, const struct strbuf *rows)
{
	page->failed |= rows->failed;
	serve_page_begin(page, "Go processes", "td img{display:block}\n");
	strbuf_adds(page, "<table>\n<tr><th class=\"n\">PID</th><th>Name</th><th>Go</th>"
			  "<th class=\"n\">Goroutines</th><th class=\"n\">Threads</th>"
			  "<th>The last hour</th><th>Command</th><th></th></tr>\n");
	strbuf_add(page, rows->data, rows->length);
	strbuf_adds(page, "</table>\n");
	if (!rows->length)
		strbuf_adds(page, "<p>gospect sees no Go process here.</p>\n");
	strbuf_adds(page, "<p class=\"dim\"><a href=\"/metrics\">metrics</a></p>\n");
	serve_page_end(page);
}

/* ---- metrics ---- */

static void add_value(struct strbuf *sb, const char *text)
{
	struct strbuf plain = STRBUF_INIT;

	printable_adds(&plain, text);
	for (const char *c = plain.data; *c; c++) {
		if (*c == '"' || *c == '\\')
			strbuf_addc(sb, '\\');
		strbuf_addc(sb, *c);
	}
	sb->failed |= plain.failed;
	strbuf_release(&plain);
}

void serve_metrics_add_process(struct strbuf *lines, const struct gospect_go_process *p)
{
	if (*p->problem || p->goroutines < 0)
		return;
	for (int i = 0; i < 2; i++) {
		strbuf_addf(lines, "%s{pid=\"%d\",name=\"",
			    i ? "gospect_threads" : "gospect_goroutines", p->pid);
		add_value(lines, p->name);
		strbuf_adds(lines, "\",go_version=\"");
		add_value(lines, p->go_version);
		strbuf_addf(lines, "\"} %" PRIu64 "\n", i ? p->threads : (uint64_t)p->goroutines);
	}
}

static void add_family(struct strbuf *page, const char *name, const char *help,
		       const struct strbuf *lines)
{
	size_t n = strlen(name);

	strbuf_addf(page, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
	for (const char *line = lines->data; *line; line += strcspn(line, "\n") + 1)
		if (!strncmp(line, name, n) && line[n] == '{')
			strbuf_add(page, line, strcspn(line, "\n") + 1);
}

void serve_metrics_server(struct strbuf *page, const struct serve_tally *t)
{
	strbuf_adds(page, "# HELP gospect_build_info The version of gospect.\n"
			  "# TYPE gospect_build_info gauge\n"
			  "gospect_build_info{version=\"" GOSPECT_VERSION "\"} 1\n"
			  "# HELP gospect_serve_requests_total Requests that were answered.\n"
			  "# TYPE gospect_serve_requests_total counter\n");
	for (size_t i = 1; i < ARRAY_SIZE(t->answered); i++)
		strbuf_addf(page, "gospect_serve_requests_total{code=\"%zuxx\"} %" PRIu64 "\n",
			    i + 1, t->answered[i]);
	strbuf_addf(page,
		    "# HELP gospect_serve_workers Requests that are being worked on.\n"
		    "# TYPE gospect_serve_workers gauge\ngospect_serve_workers %zu\n"
		    "# HELP gospect_serve_connections Open connections.\n"
		    "# TYPE gospect_serve_connections gauge\ngospect_serve_connections %zu\n",
		    t->working, t->connections);
}

void serve_metrics_page(struct strbuf *page, const struct strbuf *lines)
{
	page->failed |= lines->failed;
	add_family(page, "gospect_goroutines", "Goroutines of the process.", lines);
	add_family(page, "gospect_threads", "Threads of the process.", lines);
}
