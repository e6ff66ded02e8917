/* The page: what is chosen, kept in the address; controls, keys, tooltip. */

const $ = id => document.getElementById(id);
const METRICS = { wall: "wall time", cpu: "CPU time", count: "samples" };

function element(tag, properties, ...children) {
	const e = Object.assign(document.createElement(tag), properties);
	e.append(...children);
	return e;
}

class Page {
	constructor(profile) {
		this.profile = profile;
		this.trees = new Trees(profile);
		this.keys = labelKeys(profile);
		this.palette = new Palette(profile);
		this.metrics = Object.keys(METRICS).filter(m => profile[m].some(v => v > 0));
		this.graph = new Graph(profile, this.palette, {
			hover: (box, event) => this.tooltip(box, event),
			zoom: node => this.zoom(node),
			select: node => this.describe(node),
		});
		this.table = new FunctionTable(profile, {
			sort: by => this.change({ sort: by }),
			find: func => this.find(func),
		});
		this.describeRecording();
		this.listen();
		this.readAddress();
	}

	/* ---- what is chosen ---- */

	initial() {
		return {
			states: [true, true, true, true], waits: new Choice(), labels: new Map(), hideIdle: false, fold: false,
			metric: this.metrics[0] || "count", callers: false, flip: false, colour: "state", tab: "graph",
			sort: "self", query: "", path: [],
		};
	}

	readAddress() {
		const hash = new URLSearchParams(location.hash.slice(1)), s = this.initial();
		const get = (name, allowed, otherwise) => allowed.includes(hash.get(name)) ? hash.get(name) : otherwise;
		if (hash.has("states"))
			s.states = STATES.map(name => hash.get("states").split(",").includes(name));
		if (hash.has("wait"))
			s.waits = safeChoice(hash.get("wait"));
		for (const [name, value] of hash)
			if (name.startsWith("label.") && this.keys.has(name.slice(6)))
				s.labels.set(name.slice(6), safeChoice(value));
		s.hideIdle = hash.get("idle") === "hide";
		s.fold = hash.has("fold");
		s.callers = hash.get("view") === "callers";
		s.flip = hash.has("flip");
		s.metric = get("metric", this.metrics, s.metric);
		s.colour = get("colour", ["state", "wait", "package"], s.colour);
		s.tab = get("tab", ["graph", "table"], s.tab);
		s.sort = get("sort", ["self", "total", "name"], s.sort);
		s.query = hash.get("q") || "";
		s.path = (hash.get("zoom") || "").split(".").filter(Boolean).map(f => parseInt(f, 36));
		this.state = s;
		this.refresh();
	}

	address() {
		const s = this.state, start = this.initial(), hash = new URLSearchParams();
		if (s.states.includes(false))
			hash.set("states", STATES.filter((_, i) => s.states[i]).join(","));
		if (!s.waits.isAll)
			hash.set("wait", s.waits);
		for (const [key, choice] of s.labels)
			if (!choice.isAll)
				hash.set("label." + key, choice);
		if (s.hideIdle)
			hash.set("idle", "hide");
		if (s.callers)
			hash.set("view", "callers");
		for (const flag of ["fold", "flip"])
			if (s[flag])
				hash.set(flag, "1");
		for (const name of ["metric", "colour", "tab", "sort"])
			if (s[name] !== start[name])
				hash.set(name, s[name]);
		if (s.query)
			hash.set("q", s.query);
		if (s.path.length)
			hash.set("zoom", s.path.map(f => f.toString(36)).join("."));
		return "#" + hash;
	}

	writeAddress(step) {
		const url = this.address();
		if (url === (location.hash || "#"))
			return;
		try {
			history[step ? "pushState" : "replaceState"](null, "", url);
		} catch {
			/* Without an address of its own, as in a frame of a sandbox, the page works all the same. */
		}
	}

	change(changes, step = false) {
		Object.assign(this.state, changes);
		this.writeAddress(step);
		this.refresh();
	}

	reset() {
		const { colour, tab, flip, metric, sort } = this.state;
		this.change({ ...this.initial(), colour, tab, flip, metric, sort }, true);
	}

	/* ---- from what is chosen to what is seen ---- */

	refresh() {
		const s = this.state;
		this.filtered = applyFilters(this.profile, this.keys, s);
		this.tree = this.trees.get(s.callers, s.fold);
		this.tree.sumUp(this.filtered.values);
		this.palette.mode = s.colour;
		const [categoryOf, categories] = this.palette.categories();
		this.tree.divide(this.filtered.values, categories, categoryOf);
		this.graph.flipped = s.flip;
		this.graph.rootTitle = s.callers ? "everything, by what goroutines do" : "all goroutines";
		this.search();
		this.drawControls();
		const zoomed = this.tree.find(s.path);
		if (this.shownTree !== this.tree)
			this.graph.selected = zoomed;
		this.shownTree = this.tree;
		const graphHidden = s.tab !== "graph";
		$("panel-graph").hidden = graphHidden;
		$("panel-table").hidden = !graphHidden;
		document.body.dataset.tab = s.tab;
		$("empty").hidden = this.filtered.total > 0;
		this.graph.show(this.tree, zoomed);
		this.afterZoom();
		if (graphHidden)
			this.drawTable();
	}

	afterZoom() {
		this.drawMatched();
		this.drawCrumbs();
		this.describe(this.graph.selected);
		document.body.dataset.total = Math.round(this.filtered.total);
		document.body.dataset.visible = Math.round(this.tree.total[this.graph.zoomed]);
	}

	zoom(node) {
		if (node === this.graph.zoomed && node)
			node = this.tree.parent[node];
		this.state.path = this.tree.path(node).map(n => this.tree.func[n]);
		this.writeAddress(true);
		this.graph.zoom(node);
		this.afterZoom();
	}

	search() {
		const { query } = this.state, input = $("search");
		let expression = null;
		this.match = null;
		if (document.activeElement !== input || input.value !== query)
			input.value = query;
		if (query) {
			const flags = /[A-Z]/.test(query) ? "" : "i";
			try {
				expression = new RegExp(query, flags);
			} catch {
				expression = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), flags);
			}
			this.match = this.profile.strings.map(s => expression.test(s));
		}
		this.graph.match = this.match;
	}

	drawMatched() {
		const { zoomed } = this.graph, whole = this.tree.total[zoomed];
		const time = this.match ? this.tree.matchedTime(this.match, zoomed) : 0;
		$("matched").textContent = this.match ? formatShare(time, whole) : "";
		$("matched").title = this.match ? `${this.format(time)} of ${this.format(whole)} shown` : "";
		$("matched").dataset.time = Math.round(time);
		document.querySelector(".search").classList.toggle("active", Boolean(this.match));
	}

	drawTable() {
		if (this.state.callers)
			this.trees.get(false, this.state.fold).sumUp(this.filtered.values);
		this.table.show(this.trees.functions(), this.match, this.state.sort, this.filtered.total, v => this.format(v));
	}

	format(value) {
		return this.state.metric === "count" ? Math.round(value).toLocaleString("en") : formatTime(value);
	}

	/* ---- controls ---- */

	listen() {
		const press = (id, action) => $(id).addEventListener("click", action);
		press("tab-graph", () => this.change({ tab: "graph" }));
		press("tab-table", () => this.change({ tab: "table" }));
		press("view-callees", () => this.change({ callers: false, path: [] }, true));
		press("view-callers", () => this.change({ callers: true, path: [] }, true));
		press("flip", () => this.change({ flip: !this.state.flip }));
		press("reset", () => this.reset());
		press("empty-reset", () => this.reset());
		press("copy", () => this.copy());
		press("find", () => this.find(this.tree.func[this.graph.selected]));
		press("help-open", () => $("help").showModal());
		press("help-close", () => $("help").close());
		press("theme", () => this.setTheme(document.documentElement.dataset.theme !== "dark"));
		press("filters-open", () => this.openFilters(true));
		press("filters-close", () => this.openFilters(false));
		$("idle").addEventListener("change", e => this.change({ hideIdle: e.target.checked }));
		$("fold").addEventListener("change", e => this.change({ fold: e.target.checked }));
		$("colour").addEventListener("change", e => this.change({ colour: e.target.value }));
		$("metric").addEventListener("change", e => this.change({ metric: e.target.value }));
		$("search").addEventListener("input", e => this.searchSoon(e.target.value));
		addEventListener("hashchange", () => this.readAddress());
		addEventListener("popstate", () => this.readAddress());
		addEventListener("keydown", e => this.key(e));
		const narrow = matchMedia("(max-width: 560px)");
		narrow.addEventListener("change", () => this.fitControls(narrow.matches));
		this.fitControls(narrow.matches);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", e => this.setTheme(e.matches));
	}

	/* On a telephone the lesser controls move to the filters. */
	fitControls(narrow) {
		if (narrow)
			$("narrow-controls").append($("colour-row"), $("flip"), $("reset"));
		else
			$("filters-open").before($("flip"), $("colour-row"), document.querySelector(".search"), $("reset"));
	}

	searchSoon(query) {
		clearTimeout(this.searching);
		this.searching = setTimeout(() => this.change({ query }), this.profile.samples > 20000 ? 150 : 30);
	}

	openFilters(open) {
		document.body.classList.toggle("filters-open", open);
		$("filters-open").setAttribute("aria-expanded", open);
		$(open ? "filters-close" : "filters-open").focus();
	}

	setTheme(dark) {
		document.documentElement.dataset.theme = dark ? "dark" : "light";
		this.palette.readTheme();
		this.refresh();
	}

	toggleState(index) {
		const states = this.state.states.slice();
		states[index] = !states[index];
		this.change({ states: states.includes(true) ? states : [true, true, true, true] });
	}

	drawControls() {
		const s = this.state, pressed = (id, on) => $(id).setAttribute("aria-pressed", on);
		$("tab-graph").setAttribute("aria-selected", s.tab === "graph");
		$("tab-table").setAttribute("aria-selected", s.tab === "table");
		pressed("view-callees", !s.callers);
		pressed("view-callers", s.callers);
		pressed("flip", s.flip);
		$("colour").value = s.colour;
		$("idle").checked = s.hideIdle;
		$("fold").checked = s.fold;
		$("metric-row").hidden = this.metrics.length < 2;
		if (!$("metric").length)
			$("metric").append(...this.metrics.map(m => new Option(METRICS[m], m)));
		$("metric").value = s.metric;
		const whole = this.filtered.total + (s.hideIdle ? this.filtered.idle : 0);
		$("idle-share").textContent = formatShare(this.filtered.idle, whole);
		$("filters-open").classList.toggle("on", s.hideIdle || s.fold || !s.waits.isAll || [...s.labels.values()].some(c => !c.isAll));
		this.drawStates();
		this.drawWaits();
		this.drawLabels();
	}

	drawStates() {
		const { states } = this.filtered, all = states.reduce((a, b) => a + b, 0);
		$("split").replaceChildren(...states.map((time, i) => {
			const part = element("i", { title: STATE_TITLES[i] });
			part.dataset.state = i;
			part.style.flexGrow = all ? time / all : 0;
			part.classList.toggle("off", !this.state.states[i]);
			return part;
		}));
		if (!$("chips").children.length)
			$("chips").append(...STATE_TITLES.map((_, i) => this.chip(i)));
		[...$("chips").children].forEach((chip, i) => {
			chip.setAttribute("aria-pressed", this.state.states[i]);
			chip.querySelector("b").textContent = formatShare(states[i], all);
			chip.querySelector("em").textContent = this.format(states[i]);
			chip.dataset.time = Math.round(states[i]);
		});
	}

	chip(i) {
		const dot = element("i", {}), chip = element("button", { type: "button", className: "chip", title: `Show or hide (${i + 1}); double-click for only this` },
			dot, element("span", { textContent: STATE_TITLES[i] }), element("b", {}), element("em", {}));
		dot.dataset.state = i;
		chip.dataset.name = STATES[i];
		chip.addEventListener("click", () => this.toggleState(i));
		chip.addEventListener("dblclick", () => this.change({ states: STATES.map((_, j) => j === i) }));
		return chip;
	}

	drawWaits() {
		const sums = [...this.filtered.waits].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
		const name = wait => this.profile.strings[wait] || NO_VALUE;
		const rows = sums.map(([wait, time]) => ({
			name: name(wait), value: this.profile.strings[wait], time,
			colour: this.state.colour === "wait" ? this.palette.waitColour(wait) : null,
		}));
		this.drawFacet($("waits"), "Blocked on", rows, this.state.waits,
			waits => this.change({ waits }),
			value => this.change({ waits: new Choice(true, [value]), states: [false, false, false, true] }));
	}

	drawLabels() {
		const facets = [...this.filtered.labels].map(([key, sums]) => {
			const rows = [...sums].sort((a, b) => b[1] - a[1]).map(([value, time]) => ({ name: value, value, time }));
			const choice = this.state.labels.get(key) || new Choice();
			const set = c => this.change({ labels: new Map(this.state.labels).set(key, c) });
			const facet = element("section", { className: "facet" });
			facet.dataset.key = key;
			this.drawFacet(facet, key, rows, choice, set, value => set(new Choice(true, [value])), "label");
			return facet;
		});
		$("labels").replaceChildren(...facets);
	}

	drawFacet(facet, title, rows, choice, set, only, kind = "") {
		const all = rows.reduce((sum, row) => sum + row.time, 0), shown = rows.slice(0, 25);
		const focused = facet.contains(document.activeElement) ? document.activeElement.dataset.value : null;
		const head = element("h3", {}, kind ? element("small", { textContent: kind + " " }) : "", title);
		if (!choice.isAll)
			head.append(element("button", { type: "button", className: "link all", textContent: "all", onclick: () => set(new Choice()) }));
		facet.hidden = !rows.length;
		facet.replaceChildren(head, ...shown.map(row => {
			const box = element("input", { type: "checkbox", checked: choice.has(row.value) });
			const label = element("label", { className: "check", title: row.name }, box, " ");
			box.dataset.value = row.value;
			box.addEventListener("change", () => set(Object.assign(new Choice(), { only: choice.only, values: new Set(choice.values) }).toggle(row.value)));
			if (row.colour) {
				const swatch = element("i", { className: "swatch" });
				swatch.style.background = row.colour;
				label.append(swatch, " ");
			}
			label.append(element("span", { textContent: row.name }), element("em", { textContent: formatShare(row.time, all) }));
			const line = element("div", { className: "facet-row" }, label,
				element("button", { type: "button", className: "link only", textContent: "only", ariaLabel: `only ${row.name}`, onclick: () => only(row.value) }));
			line.style.setProperty("--part", (all ? 100 * row.time / all : 0) + "%");
			return line;
		}));
		if (rows.length > shown.length)
			facet.append(element("p", { className: "quiet", textContent: `and ${rows.length - shown.length} more` }));
		if (focused !== null)
			[...facet.querySelectorAll("input")].find(i => i.dataset.value === focused)?.focus();
	}

	drawCrumbs() {
		const { zoomed } = this.graph, path = this.tree.path(zoomed), strings = this.profile.strings;
		const crumb = (text, node, title) => element("button", { type: "button", className: "link", textContent: text, title, onclick: () => this.zoom(node) });
		const skipped = Math.max(0, path.length - 6), parts = [crumb("all", 0, "Zoom out")];
		path.forEach((node, i) => {
			const name = strings[this.tree.func[node]];
			if (i >= skipped)
				parts.push(" › ", i === path.length - 1 ? element("strong", { textContent: name, title: name }) : crumb(shorterNames(name).at(1) ?? name, node, name));
			else if (i === skipped - 1)
				parts.push(" › … ");
		});
		$("crumbs").replaceChildren(...(zoomed ? parts : []));
		$("crumbs").hidden = !zoomed || this.state.tab !== "graph";
	}

	describeRecording() {
		const p = this.profile, seconds = p.duration_ns / 1e9;
		const wall = p.wall.reduce((a, b) => a + b, 0);
		const facts = [p.go_version];
		document.title = (p.command || "profile") + " – gospect";
		$("command").textContent = p.command || "gospect";
		$("version").textContent = p.gospect;
		if (seconds)
			facts.push(formatTime(p.duration_ns) + (p.period_ns ? ` at ${Math.round(1e9 / p.period_ns)} Hz` : ""));
		if (wall && seconds)
			facts.push(`${digits(wall / p.duration_ns)} goroutines on average`);
		$("facts").textContent = facts.filter(Boolean).join(" · ");
		const rows = [["command", p.command], ["began", p.time_ns ? new Date(p.time_ns / 1e6).toLocaleString() : ""],
			["stacks", p.samples.toLocaleString("en")]].filter(row => row[1]);
		for (const comment of p.comments) {
			const colon = comment.indexOf(": ");
			rows.push(colon > 0 && colon < 40 ? [comment.slice(0, colon), comment.slice(colon + 2)] : ["", comment]);
		}
		$("recording").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })]));
	}

	/* ---- one frame ---- */

	numbers(node) {
		const { total, self, parent } = this.tree, time = total[node], whole = this.filtered.total;
		const rows = [["time", `${this.format(time)} · ${formatShare(time, whole)}`]];
		if (node)
			rows.push(["of its " + (this.state.callers ? "callee" : "caller"), formatShare(time, total[parent[node]])]);
		if (!this.state.callers)
			rows.push(["self", `${this.format(self[node])} · ${formatShare(self[node], whole)}`]);
		if (this.state.metric === "wall" && this.profile.duration_ns)
			rows.push(["on average", `${digits(time / this.profile.duration_ns)} goroutines`]);
		return rows;
	}

	/* Where in the source a frame stands: "file:line", most time first. */
	places(node) {
		const p = this.profile;
		if (!node)
			return [];
		if (this.state.callers) {
			const line = p.lineFunction.indexOf(this.tree.func[node]);
			return line >= 0 && p.lineFile[line] ? [p.strings[p.lineFile[line]]] : [];
		}
		const lines = this.trees.linesOf(node, this.filtered.values), all = this.tree.total[node];
		return lines.filter(([line]) => p.lineFile[line]).map(([line, time]) =>
			`${p.strings[p.lineFile[line]]}:${p.lineNumber[line]}` + (lines.length > 1 ? `  ${formatShare(time, all)}` : ""));
	}

	name(node) {
		return node ? this.profile.strings[this.tree.func[node]] : this.graph.rootTitle;
	}

	tooltip(box, event) {
		const tip = $("tooltip");
		tip.hidden = !box || event.pointerType === "touch";
		if (tip.hidden)
			return;
		if (this.tipOf !== box) {
			this.tipOf = box;
			tip.replaceChildren(...(box.rest ? this.restTip(box) : this.frameTip(box.node)));
		}
		const { clientX: x, clientY: y } = event, { offsetWidth: w, offsetHeight: h } = tip;
		tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - w - 8)) + "px";
		tip.style.top = (y + 18 + h > innerHeight - 8 ? Math.max(8, y - h - 12) : y + 18) + "px";
	}

	restTip(box) {
		return [element("strong", { textContent: `${box.rest} more functions` }),
			element("p", { textContent: `too narrow to show: ${this.format(box.size)} in all. Zoom into their caller to see them.` })];
	}

	frameTip(node) {
		const places = this.places(node);
		const tip = [element("strong", { textContent: this.name(node) })];
		for (const place of places.slice(0, 3))
			tip.push(element("p", { className: "place", textContent: place }));
		if (places.length > 3)
			tip.push(element("p", { className: "place", textContent: `and ${places.length - 3} more lines` }));
		tip.push(element("dl", {}, ...this.numbers(node).flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })])));
		if (this.state.colour !== "package")
			tip.push(...this.divisionTip(node));
		return tip;
	}

	divisionTip(node) {
		const { parts, categories, total } = this.tree, rows = [];
		for (let c = 0; c < categories; c++)
			rows.push([c, parts[node * categories + c]]);
		const names = this.state.colour === "wait" ? this.waitCategoryNames() : STATE_TITLES;
		return rows.filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]).slice(0, 5).map(([c, time]) => {
			const swatch = element("i", { className: "swatch" });
			swatch.style.background = this.palette.category(c);
			return element("p", { className: "division" }, swatch, element("span", { textContent: names[c] }), element("em", { textContent: formatShare(time, total[node]) }));
		});
	}

	waitCategoryNames() {
		const names = STATE_TITLES.slice(0, 3);
		for (const [wait, rank] of this.palette.waitRank)
			names[3 + rank] ??= this.palette.waitRank.size > 9 && rank === 8 ? "other reasons" : this.profile.strings[wait];
		return names;
	}

	describe(node) {
		const name = this.name(node), numbers = this.numbers(node).map(([what, value]) => `${what} ${value}`).join(",  ");
		$("details-name").textContent = name;
		$("details-name").title = [name, ...this.places(node)].join("\n");
		$("details-numbers").textContent = numbers;
		$("details").dataset.time = Math.round(this.tree.total[node]);
		$("copy").disabled = $("find").disabled = !node;
		$("announce").textContent = node ? `${name}, ${numbers}` : "";
	}

	async copy() {
		const name = this.name(this.graph.selected);
		try {
			await navigator.clipboard.writeText(name);
		} catch {
			const field = element("textarea", { value: name });
			document.body.append(field);
			field.select();
			document.execCommand("copy");
			field.remove();
		}
		$("copy").textContent = "Copied";
		setTimeout(() => { $("copy").textContent = "Copy name"; }, 1200);
	}

	find(func) {
		const query = "^" + this.profile.strings[func].replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$";
		this.change({ query, tab: "graph", path: [] }, true);
	}

	/* ---- keys ---- */

	key(event) {
		const typing = event.target.matches?.("input[type=search], select");
		if (event.ctrlKey || event.metaKey || event.altKey || $("help").open)
			return;
		if (event.key === "Escape")
			return this.escape();
		if (typing) {
			if (event.key === "Enter" && event.target === $("search"))
				this.change({ query: $("search").value });
			return;
		}
		const action = this.actions()[event.key];
		if (!action || (event.target.matches?.("button, input, a") && (event.key === "Enter" || event.key === " ")))
			return;
		event.preventDefault();
		action();
	}

	actions() {
		const walk = key => () => this.state.tab === "graph" && this.graph.walk(key);
		return {
			"/": () => { $("search").focus(); $("search").select(); },
			"?": () => $("help").showModal(),
			1: () => this.toggleState(0), 2: () => this.toggleState(1), 3: () => this.toggleState(2), 4: () => this.toggleState(3),
			h: () => this.change({ hideIdle: !this.state.hideIdle }),
			r: () => this.change({ fold: !this.state.fold }),
			i: () => this.change({ callers: !this.state.callers, path: [] }, true),
			f: () => this.change({ flip: !this.state.flip }),
			t: () => this.change({ tab: this.state.tab === "graph" ? "table" : "graph" }),
			c: () => this.graph.selected && this.copy(),
			s: () => this.graph.selected && this.find(this.tree.func[this.graph.selected]),
			Enter: () => this.zoom(this.graph.selected),
			Backspace: () => this.graph.zoomed && this.zoom(this.tree.parent[this.graph.zoomed]),
			ArrowUp: walk("ArrowUp"), ArrowDown: walk("ArrowDown"), ArrowLeft: walk("ArrowLeft"), ArrowRight: walk("ArrowRight"),
		};
	}

	escape() {
		if (document.body.classList.contains("filters-open"))
			return this.openFilters(false);
		if (this.state.query || $("search").value) {
			clearTimeout(this.searching);
			$("search").value = "";
			this.change({ query: "" });
			$("search").blur();
		} else if (this.graph.zoomed) {
			this.zoom(0);
		} else {
			this.reset();
		}
	}
}

function safeChoice(text) {
	try {
		return Choice.parse(text);
	} catch {
		return new Choice();
	}
}

async function start() {
	const began = performance.now();
	try {
		const profile = await loadProfile($("profile").textContent);
		$("profile").remove();
		new Page(profile);
	} catch (error) {
		$("command").textContent = "This profile cannot be shown";
		$("facts").textContent = String(error && error.message || error);
		throw error;
	}
	document.body.dataset.loadMs = Math.round(performance.now() - began);
}

start();
