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

/* The page's own script says what the whole is: data.tree has its bytes. */
const share = bytes => data.tree.bytes ? (100 * bytes / data.tree.bytes).toFixed(1) + " %" : "";

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

/* What has no parts may still have something to show beside the map. */
const opens = node => node.children.length || (node.referrers && node.referrers.length);

function open(node) {
	if (!opens(node) || node === current())
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
	button.title = `${node.name}\n${amount(node.bytes)}, ${share(node.bytes)} of the whole`;
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
	const parts = current().children.length ? current().children : [current()];
	layout(parts, 0, 0, width, height, (node, x, y, w, h) => {
		const colour = hue(node.name), button = box(node, x, y, w, h, colour);
		if (opens(node))
			button.dataset.open = "";
		button.onclick = () => open(node);
		if (!node.children.length || w < 80 || h < 60)
			return;
		layout(node.children, x + 3, y + 40, w - 6, h - 43, (child, cx, cy, cw, ch) => {
			if (cw < 3 || ch < 3)
				return;
			const inner = box(child, cx, cy, cw, ch, colour + 12);
			inner.dataset.open = "";
			inner.onclick = () => open(node);
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
		if (!opens(node)) {
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
	if (typeof showMore === "function")
		showMore(current());
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
