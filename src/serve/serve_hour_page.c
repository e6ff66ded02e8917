#include "serve/serve_hour_page.h"

#include <stdio.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "serve/serve_page.h"

/* Of a picture, in its own units. */
#define WIDTH 1080
#define HIGH 200
#define LOW 64

static const struct {
	const char *name, *colour;
} states[] = {{"running", "#f97d1c"},
	      {"runnable", "#f7d83c"},
	      {"syscall", "#5b9bd5"},
	      {"waiting", "#c9ced6"}};

static double now(void)
{
	return (double)clock_read(CLOCK_REALTIME) / 1e9;
}

/* ---- values of a beat ---- */

static double per_second(const struct serve_beat *b, double sum)
{
	return b->seconds > 0 ? sum / b->seconds : 0;
}

static double requests_of(const struct serve_beat *b)
{
	return b->requests;
}

static double p99_of(const struct serve_beat *b)
{
	return b->p99;
}

static double resident_of(const struct serve_beat *b)
{
	return b->resident;
}

static double highest(const struct serve_past *p, double (*value)(const struct serve_beat *))
{
	double most = 0;

	for (size_t i = 0; i < p->count; i++) {
		double one = value(serve_past_beat(p, i));

		most = one > most ? one : most;
	}
	return most;
}

/* ---- pictures ---- */

/* Where a time is in a picture that ends at `end`. */
static double place(double at, double end)
{
	return WIDTH * (1 - (end - at) / SERVE_HISTORY_SECONDS);
}

/* One column of an area. */
static void add_column(struct strbuf *page, const struct serve_beat *b, double end, double share,
		       int height)
{
	double x = place(b->end - b->seconds, end), width = place(b->end, end) - x;

	if (x + width > 0 && share > 0)
		strbuf_addf(page, "M%.1f %dV%.1fh%.1fV%d", x, height, height - height * share,
			    width + 0.3, height);
}

/* From the last state to the first, each from the axis up to the sum of all before it. */
static void add_states(struct strbuf *page, const struct serve_past *p, double end, double most,
		       int height)
{
	for (size_t k = ARRAY_SIZE(states); most > 0 && k; k--) {
		strbuf_addf(page, "<path fill=\"%s\" d=\"", states[k - 1].colour);
		for (size_t i = 0; i < p->count; i++) {
			const struct serve_beat *b = serve_past_beat(p, i);
			double sum = 0;

			for (size_t n = 0; n < k; n++)
				sum += b->states[n];
			add_column(page, b, end, per_second(b, sum) / most, height);
		}
		strbuf_adds(page, "\"/>\n");
	}
}

static void add_area(struct strbuf *page, const struct serve_past *p, double end,
		     double (*value)(const struct serve_beat *), const char *colour)
{
	double most = highest(p, value);

	strbuf_addf(page, "<path fill=\"%s\" d=\"", colour);
	for (size_t i = 0; most > 0 && i < p->count; i++)
		add_column(page, serve_past_beat(p, i), end, value(serve_past_beat(p, i)) / most,
			   LOW);
	strbuf_adds(page, "\"/>\n");
}

static void begin_picture(struct strbuf *page, int height)
{
	strbuf_addf(page,
		    "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" height=\"%d\" "
		    "role=\"img\">\n<rect width=\"%d\" height=\"%d\" fill=\"#8882\"/>\n",
		    WIDTH, height, height, WIDTH, height);
}

void serve_hour_picture(const struct serve_past *p, struct strbuf *picture)
{
	strbuf_addf(picture,
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
		    "preserveAspectRatio=\"none\" width=\"216\" height=\"24\">\n"
		    "<rect width=\"%d\" height=\"%d\" fill=\"#888\" fill-opacity=\".13\"/>\n",
		    WIDTH, HIGH, WIDTH, HIGH);
	add_states(picture, p, now(), highest(p, serve_beat_goroutines), HIGH);
	strbuf_adds(picture, "</svg>\n");
}

/* ---- numbers ---- */

static void add_bytes(struct strbuf *page, double bytes)
{
	if (bytes >= 1e9)
		strbuf_addf(page, "%.2f GB", bytes / 1e9);
	else
		strbuf_addf(page, "%.1f MB", bytes / 1e6);
}

static void add_duration(struct strbuf *page, double seconds)
{
	if (seconds >= 1)
		strbuf_addf(page, "%.2f s", seconds);
	else
		strbuf_addf(page, "%.3g ms", seconds * 1e3);
}

static void add_count(struct strbuf *page, double count)
{
	strbuf_addf(page, count < 10 ? "%.2f" : "%.0f", count);
}

/* What the script reads: a beat's end and length, its states, requests and memory. */
static void add_beats(struct strbuf *page, const struct serve_past *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct serve_beat *b = serve_past_beat(p, i);

		strbuf_addf(page, "%.1f,%.2f", b->end, b->seconds);
		for (size_t k = 0; k < ARRAY_SIZE(b->states); k++)
			strbuf_addf(page, ",%.4g", per_second(b, b->states[k]));
		strbuf_addf(page, ",%d,%.4g,%.4g,%.4g,%.0f;", b->has_requests > 0, b->requests,
			    b->progress, b->p99, b->resident);
	}
}

static void add_row(struct strbuf *page, const char *name, double first, double last,
		    void (*add)(struct strbuf *, double))
{
	strbuf_addf(page, "<tr><td>%s</td><td class=\"n\">", name);
	add(page, first);
	strbuf_adds(page, "</td><td class=\"n\">");
	add(page, last);
	strbuf_adds(page, last < first ? "</td><td class=\"n\">-" : "</td><td class=\"n\">+");
	add(page, last < first ? first - last : last - first);
	strbuf_adds(page, "</td></tr>\n");
}

static bool has_requests(const struct serve_past *p)
{
	return p->count && serve_past_beat(p, p->count - 1)->has_requests > 0;
}

/* The first whole beat, and the last one. The very first is shorter. */
static void add_growth(struct strbuf *page, const struct serve_past *p)
{
	const struct serve_beat *first = serve_past_beat(p, p->count > 1),
				*last = serve_past_beat(p, p->count ? p->count - 1 : 0);

	strbuf_addf(
		page,
		"<table>\n<tr><th></th><th class=\"n\">%.0f min ago</th><th class=\"n\">Now</th>"
		"<th class=\"n\">Growth</th></tr>\n",
		p->count ? (now() - first->end) / 60 : 0);
	add_row(page, "goroutines", serve_beat_goroutines(first), serve_beat_goroutines(last),
		add_count);
	for (size_t k = 0; k < ARRAY_SIZE(states); k++)
		add_row(page, states[k].name, per_second(first, first->states[k]),
			per_second(last, last->states[k]), add_count);
	if (has_requests(p)) {
		add_row(page, "requests a second", first->requests, last->requests, add_count);
		add_row(page, "requests in progress", first->progress, last->progress, add_count);
		add_row(page, "99 % of requests take at most", first->p99, last->p99, add_duration);
	}
	add_row(page, "resident memory", first->resident, last->resident, add_bytes);
	strbuf_adds(page, "</table>\n");
}

/* ---- the page ---- */

static void add_figure(struct strbuf *page, const struct serve_past *p, double end,
		       const char *title, double (*value)(const struct serve_beat *),
		       void (*add)(struct strbuf *, double), const char *colour)
{
	strbuf_addf(page, "<figure><figcaption><b>%s</b> <span class=\"dim\">at most ", title);
	add(page, highest(p, value));
	strbuf_adds(page, "</span></figcaption>\n");
	begin_picture(page, LOW);
	add_area(page, p, end, value, colour);
	strbuf_adds(page, "</svg></figure>\n");
}

static void add_goroutines(struct strbuf *page, const struct serve_past *p, double end)
{
	double most = highest(p, serve_beat_goroutines);

	strbuf_adds(page, "<figure><figcaption><b>Goroutines</b> <span class=\"dim\">at most ");
	add_count(page, most);
	strbuf_adds(page, "</span>");
	for (size_t k = 0; k < ARRAY_SIZE(states); k++)
		strbuf_addf(page,
			    " <svg width=\"10\" height=\"10\"><rect width=\"10\" height=\"10\" "
			    "fill=\"%s\"/></svg> %s",
			    states[k].colour, states[k].name);
	strbuf_adds(page, "</figcaption>\n");
	begin_picture(page, HIGH);
	add_states(page, p, end, most, HIGH);
	strbuf_adds(page, "</svg></figure>\n");
}

static void add_axis(struct strbuf *page)
{
	strbuf_adds(page, "<div class=\"axis dim\">");
	for (int minutes = SERVE_HISTORY_SECONDS / 60; minutes > 0; minutes -= 15)
		strbuf_addf(page, "<span>%d min ago</span>", minutes);
	strbuf_adds(page, "<span>now</span></div>\n");
}

static void add_pictures(struct strbuf *page, const struct serve_past *p)
{
	double end = now();

	strbuf_addf(page, "<main id=\"hour\" data-now=\"%.1f\" data-seconds=\"%d\" data-beats=\"",
		    end, SERVE_HISTORY_SECONDS);
	add_beats(page, p);
	strbuf_adds(page, "\">\n");
	add_goroutines(page, p, end);
	if (has_requests(p)) {
		add_figure(page, p, end, "Requests a second", requests_of, add_count, "#4caf7d");
		add_figure(page, p, end, "99 % of requests take at most", p99_of, add_duration,
			   "#9b6bd3");
	}
	add_figure(page, p, end, "Resident memory", resident_of, add_bytes, "#7a8ca3");
	add_axis(page);
	strbuf_adds(page, "</main>\n");
}

void serve_hour_page(const struct serve_past *p, struct strbuf *page)
{
	char title[128];

	snprintf(title, sizeof(title), "%s (pid %d): the last hour", p->name, p->pid);
	serve_page_begin(
		page, title,
		"#hour{touch-action:pan-y;cursor:crosshair;user-select:none}\n"
		"figure{margin:.8em 0}figcaption{margin-bottom:.2em}\n"
		"figure>svg{width:100%;display:block}.mark{fill:#2468;pointer-events:none}\n"
		".axis{display:flex;justify-content:space-between;font-size:.85em}\n"
		".links a{margin-right:.7em}\n");
	if (!p->is_alive)
		strbuf_adds(page, "<p>The process has ended.</p>\n");
	add_pictures(page, p);
	strbuf_adds(page, "<section id=\"part\"><p>Drag over a picture to select a time, and see "
			  "where it went.</p></section>\n<h2>Growth</h2>\n<div id=\"now\">\n");
	add_growth(page, p);
	strbuf_adds(page,
		    "</div>\n<p class=\"links\"><a href=\"range\">Flame graph of the whole hour</a>"
		    "<a href=\"grew\">What grew in it</a>"
		    "<a href=\"range?seconds=300\">The last 5 minutes</a></p>\n"
		    "<h2>Now</h2>\n<p class=\"links\"><a href=\"debug/pprof/\">profiles</a>"
		    "<a href=\"wall?seconds=5&amp;format=html\">wall</a>"
		    "<a href=\"offcpu?seconds=5&amp;format=html\">offcpu</a>"
		    "<a href=\"waits?format=text\">waits</a>"
		    "<a href=\"leaks?format=text\">leaks</a>"
		    "<a href=\"memory?format=html\">memory</a><a href=\"/\">all processes</a></p>\n"
		    "<script src=\"/hour.js\"></script>\n");
	serve_page_end(page);
}
