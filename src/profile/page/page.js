/* The page: from the view that is chosen to what is seen, and from clicks and keys to the next view. */

const METRICS = { wall: "wall time", cpu: "CPU time", count: "samples" };
/* Of what the runtime keeps by itself. */
const VALUES = { bytes: { wall: "bytes", count: "objects" }, nanoseconds: { wall: "time", count: "events" }, count: { count: "count" } };
const WIDE = matchMedia("(min-width: 1100px)"); /* as in the style */

class Page {
	constructor(profile) {
		const on = {
			hover: (graph, box, event) => this.tooltip.show(graph, box, event),
			zoom: (graph, node) => this.zoom(graph, node),
			select: (graph, node) => this.describe(graph, node),
			focus: graph => { this.active = graph; },
		};
		this.profile = profile;
		this.palette = new Palette(profile);
		this.graph = new Graph(profile, this.palette, $("scroller"), on);
		this.sandwich = new Sandwich(profile, this.palette, on);
		this.teller = new Teller(this);
		this.tooltip = new Tooltip(this.teller);
		this.chips = new Chips({ kind: kind => this.toggleKinds([kind]), blocked: () => this.toggleKinds(BLOCKED), idle: () => this.toggleIdle() });
		this.table = new FunctionTable(profile, {
			sort: sort => this.change({ sort }),
			plumbing: plumbing => this.change({ plumbing }),
			open: func => this.change({ of: profile.strings[func], tab: "graph" }, true),
		});
		this.goroutines = new GoroutineList(profile, {
			order: order => this.change({ order }),
			choose: goroutine => this.change({ goroutine, path: [] }, true),
		});
		this.requests = new RequestList(profile, {
			choose: request => this.change({ request }, true),
			part: part => this.showPart(part),
			isShown: part => Boolean(this.sentenceOfPart(part)),
			time: time => this.change({ time, request: -1, showIdle: true, path: [] }, true),
			hover: (box, event) => this.tooltip.showText(box, event),
		});
		this.source = new SourcePanel(profile);
		this.heat = new HeatMap({
			range: time => this.change({ time }, true),
			hover: (box, event) => this.tooltip.showText(box, event),
		});
		describeKinds();
		this.listen();
		this.use(profile);
	}

	/* Another profile: what is shown at first, or it compared with an earlier one. */
	use(profile) {
		this.profile = profile;
		this.filters = new Filters(profile);
		this.trees = null;
		this.metrics = Object.keys(METRICS).filter(m => profile[m].some(v => v > 0));
		for (const part of [this.palette, this.graph, this.sandwich, this.teller, this.table, this.goroutines, this.requests, this.source])
			part.use(profile);
		describeRecording(profile);
		$("states").hidden = $("colour-wait").hidden = Boolean(profile.unit);
		drawStandsOut(profile.stands_out, sentence => this.showSentence(sentence));
		this.readAddress();
	}

	async compareWith(file) {
		try {
			this.use(comparedProfile(this.later ??= this.profile, await profileOfPage(await file.text())));
		} catch (error) {
			$("announce").textContent = $("facts").textContent = `${file.name} cannot be compared: ${error.message}`;
		}
	}

	/* ---- what is chosen ---- */

	first() {
		const metric = this.metrics[0] || "count";
		const first = firstView(metric, this.filters.isNearlyAllIdle(metric));
		if (this.profile.unit)
			first.colour = "package";
		if (this.profile.before)
			Object.assign(first, { colour: "change", sort: "change", measure: this.profile.duration_ns || this.profile.unit ? "share" : "count" });
		return first;
	}

	readAddress() {
		this.view = viewOfAddress(location.hash, this.first(), this.filters.keys, this.metrics);
		this.refresh();
	}

	writeAddress(step) {
		const url = addressOfView(this.view, this.first());
		if (url === (location.hash || "#"))
			return;
		try {
			history[step ? "pushState" : "replaceState"](null, "", url);
		} catch {
			/* Without an address of its own, as in a frame of a sandbox, the page works all the same. */
		}
	}

	change(changes, step = false) {
		Object.assign(this.view, changes);
		this.writeAddress(step);
		this.refresh();
	}

	reset() {
		const { colour, tab, flip, metric, sort, order, measure } = this.view;
		this.change({ ...this.first(), colour, tab, flip, metric, sort, order, measure }, true);
	}

	toggleKinds(kinds) {
		const chosen = new Set(this.view.kinds), all = kinds.every(kind => chosen.has(kind));
		kinds.forEach(kind => all ? chosen.delete(kind) : chosen.add(kind));
		this.change({ kinds: chosen.size === KINDS.length ? new Set() : chosen });
	}

	toggleIdle() {
		this.change({ showIdle: !this.view.showIdle });
	}

	showSentence(sentence) {
		const { colour, flip, metric } = this.view;
		this.change({ ...viewOfSentence(sentence, this.first()), colour, flip, metric }, true);
		this.change({ path: zoomOfSentence(this.tree, matches(this.profile.strings, sentence.focus)) });
	}

	/*
	 * What shows a part of a request's path: its place and its kind of time. A trace has no stack of what
	 * runs; then it is all that runs under the goroutine's start function. Null: the page is that of the
	 * requests' own goroutines, and the part is another's.
	 */
	sentenceOfPart({ func, start, kind, wait }) {
		const common = { kinds: [KINDS[kind].id], waits: wait ? [wait] : [], idle: true };
		return [func, start].filter(Boolean).map(name => ({ ...common, focus: `^${quotedExpression(name)}$` }))
			.find(sentence => this.filters.apply(viewOfSentence(sentence, this.first())).total > 0) || null;
	}

	showPart(part) {
		const { request, tab } = this.view, sentence = this.sentenceOfPart(part);
		if (!sentence)
			return;
		this.showSentence(sentence);
		this.change({ request, tab });
	}

	/* ---- from what is chosen to what is seen ---- */

	refresh() {
		const s = this.view;
		this.filtered = this.filters.apply(this.profile.before && s.measure === "count" ? { ...s, metric: "count" } : s);
		if (!this.trees || this.hidden !== s.hide)
			this.trees = new Trees(this.profile, matches(this.profile.strings, s.hide));
		this.hidden = s.hide;
		this.drawHeat();
		this.tree = this.trees.get(s.callers, s.fold);
		this.comparison = this.profile.before ? new Comparison(this.profile, this.filtered, s) : null;
		this.fill(this.tree);
		this.palette.mode = s.colour;
		this.search();
		this.drawControls();
		this.drawPanels();
		this.drawGraphs();
		this.drawTable();
		this.drawGoroutines();
		this.drawRequests();
	}

	/* The time that the filters leave, of all samples or of those that have something. */
	fill(tree, has) {
		const left = values => has ? values.map((value, i) => has[i] ? value : 0) : values;
		if (this.comparison)
			tree.compare(left(this.comparison.after), left(this.comparison.before));
		else
			tree.sumUp(left(this.filtered.values));
		tree.divide(tree.values, KINDS.length, this.profile.sampleKind);
	}

	/* The time on average, in nanoseconds, of a recording or of what of it is chosen. */
	get duration() {
		const { time } = this.view;
		return time && this.filters.timelineOf(this.view).isKnown ? time[1] - time[0] : this.profile.duration_ns;
	}

	drawHeat() {
		const s = this.view, timeline = this.filters.timelineOf(s);
		$("times").hidden = !timeline.isKnown;
		if (!timeline.isKnown)
			return;
		const key = JSON.stringify([[...s.kinds], String(s.waits), [...s.labels].map(String), s.focus, s.ignore, s.showIdle, s.goroutine]);
		if (this.heatOf !== key || this.heat.timeline !== timeline)
			this.heatValues = s.time || s.metric !== "wall" ? this.filters.apply({ ...s, metric: "wall", time: null }).values : this.filtered.values;
		this.heatOf = key;
		this.heat.show({ timeline, values: this.heatValues, range: s.time, palette: this.palette, format: count => formatAmount(count, "goroutine") });
	}

	drawPanels() {
		const missing = { goroutines: !this.goroutines.isKnown, requests: !this.requests.isKnown, source: !this.source.isThere };
		const wide = WIDE.matches, tab = missing[this.view.tab] ? "graph" : this.view.tab;
		$("panel-graph").hidden = !wide && tab !== "graph";
		$("panel-table").hidden = wide ? ["filters", "goroutines", "requests", "source"].includes(tab) : tab !== "table";
		$("panel-source").hidden = tab !== "source";
		$("panel-goroutines").hidden = tab !== "goroutines";
		$("tab-goroutines").hidden = !this.goroutines.isKnown;
		$("panel-requests").hidden = tab !== "requests";
		$("tab-requests").hidden = !this.requests.isKnown;
		$("panel-filters").hidden = tab !== "filters";
		$("side").hidden = !wide && tab === "graph";
		document.body.classList.toggle("comparing", Boolean(this.comparison));
		document.body.dataset.tab = wide ? "graph" : tab;
		const shown = wide && tab === "graph" ? "table" : tab;
		for (const name of TABS) {
			$("tab-" + name).setAttribute("aria-selected", name === shown);
			$("tab-" + name).tabIndex = name === shown ? 0 : -1;
		}
		drawNothingLeft(this);
	}

	drawGraphs() {
		const s = this.view, { graph } = this, zoomed = this.tree.find(s.path);
		const isSandwich = this.profile.strings.includes(s.of) && s.of !== "";
		graph.flipped = s.flip;
		graph.inverted = s.callers;
		graph.rootTitle = s.callers ? "everything, by what goroutines do" : "all goroutines";
		if (this.shownTree !== this.tree || graph.zoomed !== zoomed)
			graph.selected = zoomed;
		this.shownTree = this.tree;
		$("scroller").hidden = isSandwich;
		$("sandwich").hidden = !isSandwich;
		graph.show(this.tree, zoomed);
		if (isSandwich)
			this.sandwich.show(s.of, this.trees, (tree, has) => this.fill(tree, has), this.match);
		if (!isSandwich || this.active === graph || !this.active)
			this.active = isSandwich ? this.sandwich.callees : graph;
		this.afterZoom();
	}

	afterZoom() {
		this.drawMatched();
		this.drawCrumbs();
		this.describe(this.active, this.active.selected);
		document.body.dataset.total = Math.round(this.filtered.total);
		document.body.dataset.visible = Math.round(this.active.tree.total[this.active.zoomed]);
	}

	/* The function under the pointer, or the one above when it is shown already. */
	zoom(graph, node) {
		const { tree } = graph;
		if (node === graph.zoomed && node)
			node = tree.parent[node];
		this.active = graph;
		if (graph === this.graph) {
			this.view.path = tree.path(node).map(n => tree.func[n]);
			this.writeAddress(true);
		}
		graph.zoom(node);
		this.afterZoom();
	}

	search() {
		const { query } = this.view, input = $("search");
		if (document.activeElement !== input || input.value !== query)
			input.value = query;
		this.match = matches(this.profile.strings, query) ?? this.requests.matchOf(this.view.request);
		this.graph.match = this.match;
	}

	drawMatched() {
		const { tree, zoomed } = this.active, whole = tree.total[zoomed];
		const time = this.match ? tree.matchedTime(this.match, zoomed) : 0;
		$("matched").textContent = this.match ? formatShare(time, whole) : "";
		$("matched").title = this.match ? `${this.format(time)} of ${this.format(whole)} shown` : "";
		$("matched").dataset.time = Math.round(time);
		document.querySelector(".search").classList.toggle("active", Boolean(this.match));
	}

	drawTable() {
		const { sort, plumbing, of, callers, fold } = this.view;
		if ($("panel-table").hidden)
			return;
		if (callers)
			this.fill(this.trees.get(false, fold));
		const { comparison } = this, rows = this.trees.functions(comparison ? ["before", "after"] : ["total", "self"]);
		for (const row of rows)
			row.change = difference(row.before, row.after);
		this.table.show(rows, {
			match: this.match, sort, plumbing, of: this.profile.strings.indexOf(of),
			cell: (td, row, name) => comparison ? fillChangeCell(td, row, name, comparison) :
				fillTimeCell(td, row[name], this.filtered.total, v => this.format(v)),
		});
	}

	/* The list is that of all goroutines that the other filters leave. */
	drawGoroutines() {
		const s = this.view;
		if ($("panel-goroutines").hidden)
			return;
		const { values } = this.filters.oneOf(s) ? this.filters.apply({ ...s, goroutine: "" }) : this.filtered;
		this.goroutines.show({ values, order: s.order, goroutine: s.goroutine, palette: this.palette });
	}

	drawRequests() {
		if (!$("panel-requests").hidden)
			this.requests.show({ chosen: this.view.request, palette: this.palette, hasTimes: this.filters.timeline.isKnown });
	}

	format(value) {
		const { unit } = this.profile;
		if (this.view.metric !== "count")
			return unit === "bytes" ? formatBytes(value) : formatTime(value);
		if (unit)
			return formatCount(value, { bytes: "object", nanoseconds: "event", count: "sample" }[unit]);
		return formatCount(value, this.profile.duration_ns ? "sample" : "goroutine");
	}

	/* ---- controls ---- */

	drawControls() {
		const s = this.view, pressed = (id, on) => $(id).setAttribute("aria-pressed", on);
		pressed("view-callees", !s.callers);
		pressed("view-callers", s.callers);
		pressed("flip", s.flip);
		$("colour").value = s.colour;
		$("colour-change").hidden = $("measure-row").hidden = !this.profile.before;
		$("measure").value = s.measure;
		$("measure-rate").hidden = !this.profile.duration_ns || !this.profile.before?.duration_ns;
		$("fold").checked = s.fold;
		$("metric-row").hidden = this.metrics.length < 2;
		if (!$("metric").length)
			$("metric").append(...this.metrics.map(m => new Option((VALUES[this.profile.unit] || METRICS)[m], m)));
		$("metric").value = s.metric;
		for (const name of ["focus", "ignore", "hide"])
			if (document.activeElement !== $(name))
				$(name).value = s[name];
		const active = this.filters.active({ ...s, showIdle: true }).length;
		$("tab-filters").textContent = active ? `Filters (${active})` : "Filters";
		$("all-idle").hidden = !s.showIdle || !this.first().showIdle;
		this.chips.draw(this.filtered, s, v => this.format(v));
		keepingFocus($("waits"), () => this.drawWaits());
		keepingFocus($("labels"), () => this.drawLabels());
	}

	drawWaits() {
		const sums = [...this.filtered.waits].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
		const rows = sums.map(([wait, time]) => {
			const value = this.profile.strings[wait];
			return { name: value || NO_VALUE, value, time, colour: Math.min(...kindsOfWait(this.profile, wait)) };
		});
		drawFacet($("waits"), {
			title: "Blocked on", rows, choice: this.view.waits, set: waits => this.change({ waits }),
			only: value => this.change({ waits: new Choice(true, [value]), kinds: kindsOfWait(this.profile, this.profile.strings.indexOf(value)) }),
		});
	}

	drawLabels() {
		const facets = [...this.filtered.labels].map(([key, sums]) => {
			const rows = [...sums].sort((a, b) => b[1] - a[1]).map(([value, time]) => ({ name: value, value, time }));
			const set = choice => this.change({ labels: new Map(this.view.labels).set(key, choice) });
			const facet = element("section", { className: "facet" });
			facet.dataset.key = key;
			drawFacet(facet, {
				title: key, kind: "label", rows, choice: this.view.labels.get(key) || new Choice(), set,
				only: value => set(new Choice(true, [value])),
			});
			return facet;
		});
		$("labels").replaceChildren(...facets);
	}

	drawCrumbs() {
		const { graph, profile } = this, path = graph.tree.path(graph.zoomed), skipped = Math.max(0, path.length - 6);
		const crumb = (text, node, title) => button(text, () => this.zoom(graph, node), { className: "link", title });
		const parts = [crumb("all", 0, "Zoom out")];
		path.forEach((node, i) => {
			const name = profile.strings[graph.tree.func[node]];
			if (i >= skipped)
				parts.push(" › ", i === path.length - 1 ? element("strong", { textContent: name, title: name }) : crumb(shorterNames(name).at(1) ?? name, node, name));
			else if (i === skipped - 1)
				parts.push(" › … ");
		});
		$("crumbs").replaceChildren(...(graph.zoomed ? parts : []));
		$("crumbs").hidden = !graph.zoomed || document.body.dataset.tab !== "graph" || !$("sandwich").hidden;
	}

	describe(graph, node) {
		const name = this.teller.name(graph, node);
		const numbers = this.teller.summary(graph, node);
		this.active = graph;
		$("details-name").textContent = name;
		$("details-name").title = [name, ...this.teller.places(graph, node)].join("\n");
		$("details-numbers").textContent = numbers;
		$("details").dataset.time = Math.round(graph.tree.total[node]);
		$("copy").disabled = $("find").disabled = $("around").disabled = !node && !graph.rootIsFunction;
		$("announce").textContent = node ? `${name}, ${numbers}` : "";
		if (!$("panel-source").hidden)
			this.drawSource(graph, node);
	}

	drawSource(graph, node) {
		const isFunction = node || graph.rootIsFunction, { comparison, filtered } = this;
		const lines = isFunction ? this.trees.sourceLines(graph.tree.func[node], comparison ? comparison.after : filtered.values) : [];
		this.source.show(isFunction ? this.teller.name(graph, node) : "", lines, value => comparison ? comparison.format(value) : this.format(value));
	}

	/* ---- clicks and keys ---- */

	listen() {
		const press = (id, action) => $(id).addEventListener("click", action);
		press("tab-graph", () => this.change({ tab: "graph" }));
		press("tab-table", () => this.change({ tab: "table" }));
		press("tab-source", () => this.change({ tab: "source" }));
		press("tab-filters", () => this.change({ tab: "filters" }));
		press("tab-goroutines", () => this.change({ tab: "goroutines" }));
		press("tab-requests", () => this.change({ tab: "requests" }));
		press("view-callees", () => this.change({ callers: false, path: [] }, true));
		press("view-callers", () => this.change({ callers: true, path: [] }, true));
		press("flip", () => this.change({ flip: !this.view.flip }));
		press("reset", () => this.reset());
		press("heat-all", () => this.change({ time: null }, true));
		press("copy", () => this.copy());
		press("find", () => this.find());
		press("around", () => this.showAround());
		press("sandwich-close", () => this.change({ of: "" }, true));
		press("help-open", () => $("help").showModal());
		press("help-close", () => $("help").close());
		press("theme", () => this.setTheme(document.documentElement.dataset.theme !== "dark"));
		$("tabs").addEventListener("keydown", e => this.walkTabs(e));
		for (const name of ["colour", "metric", "measure", "focus", "ignore", "hide"])
			$(name).addEventListener("change", e => this.change({ [name]: e.target.value }));
		$("fold").addEventListener("change", e => this.change({ fold: e.target.checked }));
		$("search").addEventListener("input", e => this.searchSoon(e.target.value));
		addEventListener("hashchange", () => this.readAddress());
		addEventListener("popstate", () => this.readAddress());
		addEventListener("keydown", e => this.key(e));
		listenForFiles(file => this.compareWith(file));
		WIDE.addEventListener("change", () => this.fitControls());
		this.fitControls();
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", e => this.setTheme(e.matches));
	}

	/* As tabs do everywhere: arrows go from one to the next. */
	walkTabs(event) {
		const tabs = [...$("tabs").children].filter(tab => tab.offsetParent);
		const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (!by)
			return;
		const next = tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length];
		event.stopPropagation();
		next.focus();
		next.click();
	}

	/* On a wide screen the tabs are those of the side panel, else of the whole page. */
	fitControls() {
		if (WIDE.matches)
			$("side").prepend($("tabs"));
		else
			$("toolbar").prepend($("tabs"));
		if (this.view)
			this.refresh();
	}

	searchSoon(query) {
		clearTimeout(this.searching);
		this.searching = setTimeout(() => this.change({ query }), this.profile.samples > 20000 ? 150 : 30);
	}

	setTheme(dark) {
		document.documentElement.dataset.theme = dark ? "dark" : "light";
		this.palette.readTheme();
		this.refresh();
	}

	selectedName() {
		return this.teller.name(this.active, this.active.selected);
	}

	async copy() {
		const name = this.selectedName();
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

	find() {
		this.change({ query: "^" + quotedExpression(this.selectedName()) + "$", tab: "graph", path: [], of: "" }, true);
	}

	showAround() {
		this.change({ of: this.selectedName(), tab: "graph" }, true);
	}

	key(event) {
		const typing = event.target.matches?.("input[type=search], input[type=text], select");
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
		const { active } = this, walk = key => () => !$("panel-graph").hidden && active.walk(key);
		const kinds = Object.fromEntries(KINDS.map((_, i) => [i + 1, () => this.toggleKinds([i])]));
		return {
			...kinds,
			"/": () => { $("search").focus(); $("search").select(); },
			"?": () => $("help").showModal(),
			h: () => this.toggleIdle(),
			r: () => this.change({ fold: !this.view.fold }),
			i: () => this.change({ callers: !this.view.callers, path: [] }, true),
			f: () => this.change({ flip: !this.view.flip }),
			x: () => $("heat").focus(),
			t: () => this.change({ tab: !$("panel-table").hidden && !WIDE.matches ? "graph" : "table" }),
			g: () => this.goroutines.isKnown && this.change({ tab: this.view.tab === "goroutines" ? "graph" : "goroutines" }),
			q: () => this.requests.isKnown && this.change({ tab: this.view.tab === "requests" ? "graph" : "requests" }),
			l: () => this.source.isThere && this.change({ tab: this.view.tab === "source" ? "graph" : "source" }),
			c: () => !$("copy").disabled && this.copy(),
			s: () => !$("find").disabled && this.find(),
			w: () => !$("around").disabled && this.showAround(),
			Enter: () => this.zoom(active, active.selected),
			Backspace: () => active.zoomed && this.zoom(active, active.tree.parent[active.zoomed]),
			ArrowUp: walk("ArrowUp"), ArrowDown: walk("ArrowDown"), ArrowLeft: walk("ArrowLeft"), ArrowRight: walk("ArrowRight"),
		};
	}

	/* From the innermost thing that was done outwards. */
	escape() {
		if (this.view.query || $("search").value) {
			clearTimeout(this.searching);
			$("search").value = "";
			this.change({ query: "" });
			$("search").blur();
		} else if (this.view.of) {
			this.change({ of: "" }, true);
		} else if (this.requests.all[this.view.request]) {
			this.change({ request: -1 }, true);
		} else if (this.view.time && document.activeElement === $("heat")) {
			this.change({ time: null }, true);
		} else if (this.graph.zoomed) {
			this.zoom(this.graph, 0);
		} else if (this.view.goroutine) {
			this.change({ goroutine: "" }, true);
		} else if (this.view.time) {
			this.change({ time: null }, true);
		} else {
			this.reset();
		}
	}
}

async function start() {
	const began = performance.now();
	try {
		const profile = await loadProfile($("profile").textContent), before = $("before").textContent.trim();
		new Page(before ? comparedProfile(profile, await loadProfile(before)) : profile);
		$("profile").remove();
		$("before").remove();
	} catch (error) {
		$("command").textContent = "This profile cannot be shown";
		$("facts").textContent = String(error && error.message || error);
		throw error;
	}
	document.body.dataset.loadMs = Math.round(performance.now() - began);
}

start();
