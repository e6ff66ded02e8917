/* A view: what is chosen on the page. The page's address holds what differs from the first view. */

const TABS = ["graph", "table", "source", "filters", "goroutines", "requests"], SORTS = ["total", "self", "name", "change", "grown", "shrunk", "before", "after"], COLOURS = ["wait", "package", "change"];

function firstView(metric, showIdle) {
	return {
		kinds: new Set(), waits: new Choice(), labels: new Map(), focus: "", ignore: "", hide: "", showIdle, fold: true,
		metric, callers: false, flip: false, colour: "wait", tab: "graph", sort: "total", plumbing: false,
		query: "", path: [], of: "", goroutine: "", order: "busiest", request: -1, measure: "share", time: null,
	};
}

/* "states" is what an older page had. */
function kindsOfAddress(hash) {
	const ids = (hash.get("kinds") || "").split(","), states = (hash.get("states") || "").split(",");
	const kinds = new Set(KINDS.map((_, i) => i).filter(i => ids.includes(KINDS[i].id) || states.includes(STATES[Math.min(i, WAITING)])));
	return kinds.size === KINDS.length ? new Set() : kinds;
}

/* "2.1-2.4", in seconds. */
function rangeOfAddress(text) {
	const range = (text || "").split("-").map(part => parseFloat(part) * 1e9);
	return range.length === 2 && range[0] >= 0 && range[1] > range[0] ? range : null;
}

function viewOfAddress(text, first, labels, metrics) {
	const hash = new URLSearchParams(text.slice(1)), s = { ...first };
	const get = (name, allowed) => allowed.includes(hash.get(name)) ? hash.get(name) : first[name];
	s.kinds = kindsOfAddress(hash);
	if (hash.has("wait"))
		s.waits = Choice.parse(hash.get("wait"));
	s.labels = new Map([...hash].filter(([name]) => name.startsWith("label.") && labels.has(name.slice(6)))
		.map(([name, value]) => [name.slice(6), Choice.parse(value)]));
	for (const name of ["focus", "ignore", "hide", "of", "goroutine"])
		s[name] = hash.get(name) || "";
	if (hash.has("idle"))
		s.showIdle = hash.get("idle") === "show";
	s.fold = hash.get("fold") !== "0";
	s.callers = hash.get("view") === "callers";
	s.flip = hash.has("flip");
	s.plumbing = hash.has("plumbing");
	s.metric = get("metric", metrics);
	s.colour = get("colour", COLOURS);
	s.measure = get("measure", Object.keys(MEASURES));
	s.tab = get("tab", TABS);
	s.sort = get("sort", SORTS);
	s.order = get("order", Object.keys(ORDERS));
	s.time = rangeOfAddress(hash.get("time"));
	s.request = hash.has("request") ? parseInt(hash.get("request"), 10) - 1 : -1;
	s.query = hash.get("q") || "";
	s.path = (hash.get("zoom") || "").split(".").filter(Boolean).map(f => parseInt(f, 36));
	return s;
}

function addressOfView(s, first) {
	const hash = new URLSearchParams();
	if (s.kinds.size)
		hash.set("kinds", [...s.kinds].map(kind => KINDS[kind].id).join(","));
	if (!s.waits.isAll)
		hash.set("wait", s.waits);
	for (const [key, choice] of s.labels)
		if (!choice.isAll)
			hash.set("label." + key, choice);
	for (const name of ["focus", "ignore", "hide", "of", "goroutine"])
		if (s[name])
			hash.set(name, s[name]);
	if (s.showIdle !== first.showIdle)
		hash.set("idle", s.showIdle ? "show" : "hide");
	if (!s.fold)
		hash.set("fold", "0");
	if (s.callers)
		hash.set("view", "callers");
	for (const flag of ["flip", "plumbing"])
		if (s[flag])
			hash.set(flag, "1");
	for (const name of ["metric", "colour", "measure", "tab", "sort", "order"])
		if (s[name] !== first[name])
			hash.set(name, s[name]);
	if (s.time)
		hash.set("time", s.time.map(ns => +(ns / 1e9).toFixed(4)).join("-"));
	if (s.request >= 0)
		hash.set("request", s.request + 1);
	if (s.query)
		hash.set("q", s.query);
	if (s.path.length)
		hash.set("zoom", s.path.map(f => f.toString(36)).join("."));
	return "#" + hash;
}
