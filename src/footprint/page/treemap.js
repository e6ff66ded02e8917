"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

function element(name, text, parent) {
	const e = document.createElement(name);
	if (text !== undefined)
		e.textContent = text;
	if (parent)
		parent.append(e);
	return e;
}

function amount(bytes) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
	let i = 0;
	for (; bytes >= 999.5 && i + 1 < units.length; i++)
		bytes /= 1024;
	return Number(bytes.toPrecision(3)) + " " + units[i];
}

const share = bytes => data.rss_bytes ? (100 * bytes / data.rss_bytes).toFixed(1) + " %" : "";

/* The same name has the same colour on every page. */
function hue(name) {
	let h = 7;
	for (const c of name)
		h = (h * 31 + c.codePointAt(0)) % 3600;
	return h / 10;
}

/* Squarified treemap: rows along the shorter side, each as square as it gets (Bruls, Huizing, van Wijk). */
function worst(row, sum, side, scale) {
	const length = sum * scale / side;
	return Math.max(...row.map(n => {
		const other = n.bytes * scale / length;
		return Math.max(length / other, other / length);
	}));
}

function layout(nodes, x, y, w, h, put) {
	let rest = nodes.filter(n => n.bytes > 0);
	let left = rest.reduce((sum, n) => sum + n.bytes, 0);
	while (rest.length && w > 0 && h > 0) {
		const scale = w * h / left, side = Math.min(w, h);
		let n = 1, sum = rest[0].bytes;
		while (n < rest.length && worst(rest.slice(0, n + 1), sum + rest[n].bytes, side, scale) <= worst(rest.slice(0, n), sum, side, scale))
			sum += rest[n++].bytes;
		const length = sum * scale / side;
		let at = 0;
		for (const node of rest.slice(0, n)) {
			const part = node.bytes * scale / length;
			if (w < h)
				put(node, x + at, y, part, length);
			else
				put(node, x, y + at, length, part);
			at += part;
		}
		if (w < h) {
			y += length;
			h -= length;
		} else {
			x += length;
			w -= length;
		}
		left -= sum;
		rest = rest.slice(n);
	}
}

const path = [data.tree];
const current = () => path[path.length - 1];

function open(node) {
	if (!node.children.length)
		return;
	path.push(node);
	show();
}

function showPath() {
	const nav = byId("path");
	nav.replaceChildren();
	path.forEach((node, i) => {
		if (i)
			nav.append(" › ");
		const button = element("button", node.name + " " + amount(node.bytes), nav);
		button.type = "button";
		if (i + 1 === path.length)
			button.setAttribute("aria-current", "true");
		button.onclick = () => { path.length = i + 1; show(); };
	});
}

function box(node, x, y, w, h, colour) {
	const button = element("button", undefined, byId("map"));
	button.type = "button";
	button.style.cssText = `left:${x}px;top:${y}px;width:${w}px;height:${h}px;background:hsl(${colour} 45% var(--package-light))`;
	button.title = `${node.name}\n${amount(node.bytes)}, ${share(node.bytes)} of the resident memory`;
	button.setAttribute("aria-label", button.title);
	if (w > 40 && h > 18)
		element("b", node.name, button);
	if (w > 40 && h > 36)
		element("i", amount(node.bytes) + " · " + share(node.bytes), button);
	return button;
}

/* Two levels: those of a part lie inside it, below its name. */
function showMap() {
	const map = byId("map"), width = map.clientWidth, height = map.clientHeight;
	map.replaceChildren();
	layout(current().children, 0, 0, width, height, (node, x, y, w, h) => {
		const colour = hue(node.name), button = box(node, x, y, w, h, colour);
		const opens = () => open(node);
		if (node.children.length)
			button.dataset.open = "";
		button.onclick = opens;
		if (!node.children.length || w < 80 || h < 60)
			return;
		layout(node.children, x + 3, y + 40, w - 6, h - 43, (child, cx, cy, cw, ch) => {
			if (cw < 3 || ch < 3)
				return;
			const inner = box(child, cx, cy, cw, ch, colour + 12);
			inner.dataset.open = "";
			inner.onclick = opens;
		});
	});
}

function row(table, kind, cells) {
	const tr = element("tr", undefined, table);
	return cells.map(cell => element(kind, cell, tr)).pop();
}

function clear(table) {
	while (table.rows.length)
		table.deleteRow(0);
}

function showRows() {
	const table = byId("rows");
	clear(table);
	row(table, "th", ["bytes", "share", "where"]);
	for (const node of current().children) {
		const cell = row(table, "td", [amount(node.bytes), share(node.bytes), ""]);
		if (!node.children.length) {
			cell.textContent = node.name;
			continue;
		}
		const button = element("button", node.name, cell);
		button.type = "button";
		button.onclick = () => open(node);
	}
}

function show() {
	showPath();
	showMap();
	showRows();
}

function showFacts() {
	const name = data.process.exe.split("/").pop(), gc = data.gc;
	document.title = name + " memory";
	byId("command").textContent = name;
	const facts = [`pid ${data.process.pid}`, `${amount(data.rss_bytes)} ${data.process.is_core ? "mapped" : "resident"}`];
	if (data.cgroup.charge_bytes !== null)
		facts.push(`control group: ${amount(data.cgroup.charge_bytes)}` + (data.cgroup.limit_bytes === null ? "" : ` of ${amount(data.cgroup.limit_bytes)}`));
	facts.push(`heap ${amount(gc.heap_bytes)}, goal ${gc.goal_bytes === null ? "none" : amount(gc.goal_bytes)}`);
	facts.push(gc.gogc < 0 ? "GOGC=off" : `GOGC=${gc.gogc}`);
	if (gc.memory_limit_bytes !== null)
		facts.push(`GOMEMLIMIT=${amount(gc.memory_limit_bytes)}`);
	byId("facts").textContent = facts.join(" · ");
	byId("advice").textContent = data.advice;
}

function showTables() {
	const creators = byId("creators"), metrics = byId("metrics");
	row(creators, "th", ["stacks", "frames", "goroutines", "created by"]);
	for (const c of data.stacks_by_creator.slice(0, 50))
		row(creators, "td", [amount(c.stack_bytes), amount(c.frame_bytes), c.goroutines, c.created_by]);
	for (const [name, bytes] of Object.entries(data.runtime_metrics))
		row(metrics, "td", [amount(bytes), name]);
}

byId("theme").onclick = () => {
	const root = document.documentElement;
	root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
};
addEventListener("resize", showMap);
addEventListener("keydown", event => {
	if (event.key === "Escape" && path.length > 1) {
		path.pop();
		show();
	}
});
showFacts();
showTables();
show();
