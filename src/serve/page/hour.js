// The page of the last hour: a part of it is selected by dragging over a picture. The pictures are
// the server's, and are fetched again as the hour goes on.
"use strict";

(() => {
const REFRESH_MS = 10000;
const LEAST_SECONDS = 10;
const main = document.getElementById("hour");
const part = document.getElementById("part");
let selected = null; // {from, to}, in seconds since 1970
let drag = null;

const span = () => Number(main.dataset.seconds);
const end = () => Number(main.dataset.now);

// Beats as objects; see add_beats() in serve_hour_page.c.
function beats() {
	return main.dataset.beats.split(";").filter(Boolean).map((text) => {
		const [at, seconds, ...rest] = text.split(",").map(Number);
		const [running, runnable, syscall, waiting, known, requests, progress, p99, resident] = rest;
		return {at, seconds, running, runnable, syscall, waiting, known, requests, progress, p99, resident,
			goroutines: running + runnable + syscall + waiting};
	});
}

// ---- words ----

function clock(seconds) {
	return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

function length(seconds) {
	const s = Math.round(seconds);
	return s < 60 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60 ? s % 60 + " s" : ""}`.trim();
}

function short(x) {
	return Number(x.toPrecision(3)).toLocaleString("en-US");
}

function bytes(x) {
	return x >= 1e9 ? `${short(x / 1e9)} GB` : `${short(x / 1e6)} MB`;
}

function time(x) {
	return x >= 1 ? `${short(x)} s` : `${short(x * 1000)} ms`;
}

function mean(list, value) {
	const seconds = list.reduce((sum, b) => sum + b.seconds, 0);
	return seconds ? list.reduce((sum, b) => sum + value(b) * b.seconds, 0) / seconds : 0;
}

// ---- the selection ----

function mark(svg) {
	let rect = svg.querySelector(".mark");
	if (!rect) {
		rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
		rect.setAttribute("class", "mark");
		rect.setAttribute("height", "100%");
		svg.append(rect);
	}
	const width = svg.viewBox.baseVal.width;
	const x = (at) => Math.min(width, Math.max(0, (1 - (end() - at) / span()) * width));
	rect.setAttribute("x", x(selected.from));
	rect.setAttribute("width", Math.max(1, x(selected.to) - x(selected.from)));
}

function row(table, ...cells) {
	const tr = table.insertRow();
	cells.forEach((text, i) => {
		const td = tr.insertCell();
		td.textContent = text;
		td.className = i ? "n" : "";
	});
}

function numbers(list) {
	const table = document.createElement("table");
	const third = Math.max(1, Math.floor(list.length / 3));
	const first = list.slice(0, third), last = list.slice(-third);
	const add = (name, value, say) => {
		const a = mean(first, value), b = mean(last, value), d = b - a;
		row(table, name, say(mean(list, value)), say(a), say(b), (d < 0 ? "-" : "+") + say(Math.abs(d)));
	};
	row(table, "", "average", "at first", "at the end", "growth");
	for (const state of ["goroutines", "running", "runnable", "syscall", "waiting"])
		add(state, (b) => b[state], short);
	if (list.some((b) => b.known)) {
		add("requests a second", (b) => b.requests, short);
		add("requests in progress", (b) => b.progress, short);
		add("99 % of requests take at most", (b) => b.p99, time);
	}
	add("resident memory", (b) => b.resident, bytes);
	return table;
}

function link(text, path) {
	const a = document.createElement("a");
	a.href = `${path}from=${selected.from.toFixed(1)}&to=${selected.to.toFixed(1)}`;
	a.textContent = text;
	return a;
}

function mark_all() {
	if (selected)
		document.querySelectorAll("#hour figure > svg").forEach(mark);
}

function show() {
	mark_all();
	const list = beats().filter((b) => b.at - b.seconds / 2 >= selected.from && b.at - b.seconds / 2 <= selected.to);
	const title = document.createElement("h2");
	title.textContent = `${clock(selected.from)} to ${clock(selected.to)}, ${length(selected.to - selected.from)}`;
	const links = document.createElement("p");
	links.append(link("Flame graph", "range?"), " ", link("What grew", "grew?"), " ",
		link("pprof", "range?format=pprof&"), " ", link("folded", "range?format=folded&"));
	links.className = "links";
	part.replaceChildren(title, list.length ? links : "gospect did not look then.", list.length ? numbers(list) : "");
}

function at(event) {
	const box = main.querySelector("figure > svg").getBoundingClientRect();
	const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
	return end() - (1 - share) * span();
}

main.addEventListener("pointerdown", (event) => {
	if (event.button || !event.target.closest("figure > svg"))
		return;
	drag = at(event);
	main.setPointerCapture(event.pointerId);
	event.preventDefault();
});

main.addEventListener("pointermove", (event) => {
	if (drag === null)
		return;
	const to = at(event);
	selected = {from: Math.min(drag, to), to: Math.max(drag, to)};
	mark_all();
});

// A click selects what one look has.
function finish(event) {
	if (drag === null)
		return;
	const to = at(event), middle = (drag + to) / 2, half = Math.max(Math.abs(drag - to), LEAST_SECONDS) / 2;
	drag = null;
	selected = {from: middle - half, to: middle + half};
	show();
}

main.addEventListener("pointerup", finish);
main.addEventListener("pointercancel", () => { drag = null; });

// ---- as the hour goes on ----

async function refresh() {
	if (drag !== null || document.hidden)
		return;
	const answer = await fetch(location.pathname);
	if (!answer.ok)
		return;
	const page = new DOMParser().parseFromString(await answer.text(), "text/html");
	const now = page.getElementById("hour");
	if (!now || drag !== null)
		return;
	Object.assign(main.dataset, now.dataset);
	main.replaceChildren(...now.childNodes);
	document.getElementById("now").replaceChildren(...page.getElementById("now").childNodes);
	mark_all();
}

setInterval(() => refresh().catch(() => {}), REFRESH_MS);
})();
