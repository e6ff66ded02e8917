/*
 * The slowest requests and their critical paths (request_paths.h): for each moment of a request, which
 * goroutine's work it needed. A click on a request shows its path, and marks it in the graph.
 */

const PATH_HEIGHT = 14;

/* Those of the page, as they are shown. */
function requestsOf({ requests = [], strings }) {
	return requests.map(({ name, goroutine, begin, end, parts }) => ({
		name, goroutine, begin, end,
		parts: parts.map(([from, to, of, start, state, wait, at, line, depth]) => ({
			begin: from, end: to, time: to - from, goroutine: of, start: strings[start], wait: strings[wait], func: strings[at], line, depth,
			kind: state < STATES.length ? kindOf(state, strings[wait]) : OTHER,
			does: state >= STATES.length ? "unknown" : state === WAITING ? strings[wait] || "waiting" : KINDS[state].title,
		})),
	}));
}

/* Parts that do one thing at one place are a row, most time first. */
function rowsOfPath(parts) {
	const rows = new Map();
	for (const part of parts) {
		const key = [part.does, part.func, part.line, part.start].join("\n");
		if (!rows.has(key))
			rows.set(key, { ...part, time: 0, count: 0, goroutines: new Set() });
		const row = rows.get(key);
		row.time += part.time;
		row.count++;
		row.goroutines.add(part.goroutine);
	}
	return [...rows.values()].sort((a, b) => b.time - a.time);
}

class RequestList {
	constructor(profile, on) {
		this.on = on;
		this.use(profile);
		new ResizeObserver(() => this.drawStrips()).observe($("requests"));
	}

	use(profile) {
		this.profile = profile;
		this.all = requestsOf(profile);
		this.match = new Map();
	}

	get isKnown() {
		return this.all.length > 0;
	}

	/* Which functions a request's path goes through; null: no request is chosen. */
	matchOf(chosen) {
		const request = this.all[chosen];
		if (!request)
			return null;
		if (!this.match.has(chosen)) {
			const names = new Set(request.parts.map(part => part.func).filter(Boolean));
			this.match.set(chosen, this.profile.strings.map(s => names.has(s)));
		}
		return this.match.get(chosen);
	}

	show({ chosen, palette, hasTimes }) {
		Object.assign(this, { chosen, palette, hasTimes });
		keepingFocus($("requests"), () => $("requests").replaceChildren(...this.all.map((request, i) => this.line(request, i))));
		this.drawStrips();
	}

	line(request, i) {
		const isChosen = i === this.chosen, time = request.end - request.begin;
		const name = button("", () => this.on.choose(isChosen ? -1 : i), { className: "link", title: isChosen ? "Close" : "Its critical path" });
		name.append(element("b", { textContent: formatTime(time) }), " ", ...breakable(request.name));
		name.dataset.focus = i;
		name.setAttribute("aria-expanded", isChosen);
		const line = element("li", {}, name, this.strip(request));
		line.dataset.request = i;
		if (isChosen)
			line.append(...this.path(request));
		return line;
	}

	strip(request) {
		const sums = new Map();
		for (const { does, time } of request.parts)
			sums.set(does, (sums.get(does) || 0) + time);
		const strip = element("canvas", { className: "strip path", ariaLabel: [...sums].sort((a, b) => b[1] - a[1]).map(([does, time]) => `${does} ${formatTime(time)}`).join(", ") });
		strip.setAttribute("role", "img");
		strip.addEventListener("pointermove", e => this.on.hover(this.boxAt(request, e), e));
		strip.addEventListener("pointerleave", e => this.on.hover(null, e));
		strip.addEventListener("click", e => {
			const part = this.partAt(request, e);
			if (part)
				this.on.part(part);
		});
		return strip;
	}

	path(request) {
		const whole = request.end - request.begin, rows = rowsOfPath(request.parts), shown = rows.slice(0, 12);
		const list = element("ol", { className: "parts" }, ...shown.map(row => this.row(row, whole)));
		const rest = rows.slice(shown.length).reduce((sum, row) => sum + row.time, 0);
		if (rest)
			list.append(element("li", { className: "quiet", textContent: `${formatTime(rest)} ${formatShare(rest, whole)} elsewhere` }));
		const parts = [element("p", { className: "quiet", textContent: `goroutine ${request.goroutine}, from ${formatTime(request.begin)} to ${formatTime(request.end)}` }), list];
		if (this.hasTimes)
			parts.push(button("All goroutines during this time", () => this.on.time([request.begin, request.end]), { className: "link" }));
		return parts;
	}

	row(row, whole) {
		const who = row.goroutines.size > 1 ? `${formatCount(row.goroutines.size, "goroutine")} of ${withoutPath(row.start)}` :
			row.depth ? `goroutine ${[...row.goroutines][0]} ${row.start ? `(${withoutPath(row.start)})` : ""}` : "";
		const at = row.func ? `${row.kind ? "in" : "until"} ${withoutPath(row.func)}${row.line ? ":" + row.line : ""}` : "";
		const link = this.on.isShown(row) ? button("", () => this.on.part(row), { className: "link", title: "Only this, in the graph" }) : element("span");
		link.append(swatch(row.kind), element("b", { textContent: formatTime(row.time) }), ` ${formatShare(row.time, whole)} `, ...breakable([row.does, at].filter(Boolean).join(" ")));
		return element("li", {}, link, who ? element("p", { className: "quiet", textContent: who + (row.count > 1 ? `, ${row.count} times` : "") }) : "");
	}

	/* ---- the strip ---- */

	partAt(request, event) {
		const box = event.currentTarget.getBoundingClientRect();
		const at = request.begin + (event.clientX - box.left) / box.width * (request.end - request.begin);
		return request.parts.find(part => part.begin <= at && at < part.end);
	}

	boxAt(request, event) {
		const part = this.partAt(request, event);
		if (!part)
			return null;
		const place = [part.func && `${withoutPath(part.func)}:${part.line}`, `goroutine ${part.goroutine}${part.start ? ` (${withoutPath(part.start)})` : ""}`];
		return { text: [element("strong", { textContent: `${part.does} ${formatTime(part.time)}` }), ...place.filter(Boolean).map(text => element("p", { className: "place", textContent: text }))] };
	}

	drawStrips() {
		if (!this.palette || !$("requests").offsetParent)
			return;
		[...$("requests").children].forEach((line, i) => this.drawStrip(line.querySelector("canvas"), this.all[i]));
	}

	/* A part's colour is its kind; the deeper it is in goroutines that the request waited for, the lower. */
	drawStrip(canvas, { begin, end, parts }) {
		const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, context = canvas.getContext("2d");
		const x = time => (time - begin) / (end - begin) * width;
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(PATH_HEIGHT * ratio);
		context.scale(ratio, ratio);
		context.fillStyle = this.palette.same;
		context.fillRect(0, PATH_HEIGHT - 1, width, 1);
		for (const part of parts) {
			const top = Math.min(part.depth, 3) * 3;
			context.fillStyle = this.palette.kinds[part.kind];
			context.fillRect(x(part.begin), top, Math.max(0.5, x(part.end) - x(part.begin)), PATH_HEIGHT - top);
		}
	}
}
