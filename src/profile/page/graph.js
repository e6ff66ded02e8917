/*
 * The flame graph on a canvas. It lays out what is wide enough to be seen of a tree, from the root
 * down through the zoomed node, and paints the rows that are scrolled into view.
 */

const ROW = 21;
const MIN_WIDTH = 0.6;
const PAD = 5;
const STRIP = 4;

class Graph {
	/* Into an element that scrolls, with a canvas in a spacer. */
	constructor(profile, palette, scroller, on) {
		this.profile = profile;
		this.palette = palette;
		this.on = on;
		this.scroller = scroller;
		this.spacer = scroller.firstElementChild;
		this.canvas = scroller.querySelector("canvas");
		this.context = this.canvas.getContext("2d");
		this.widths = new Map();
		this.names = profile.strings.map(() => null);
		this.zoomed = 0;
		this.selected = 0;
		this.hovered = null;
		this.flipped = false;
		this.match = null;
		this.boxes = [];
		this.range = [0, 1];
		this.listen();
	}

	use(profile) {
		this.profile = profile;
		this.names = profile.strings.map(() => null);
		this.zoomed = this.selected = 0;
		this.tree = null;
	}

	listen() {
		new ResizeObserver(() => this.resize()).observe(this.scroller);
		this.scroller.addEventListener("scroll", () => this.requestPaint());
		this.canvas.addEventListener("pointermove", e => this.hover(e));
		this.canvas.addEventListener("pointerleave", () => this.unhover());
		this.canvas.addEventListener("click", e => this.click(e));
		this.canvas.addEventListener("focus", () => this.on.focus(this));
	}

	/* Shows this tree; its time must have been summed up. */
	show(tree, zoomed) {
		this.tree = tree;
		while (zoomed && !tree.total[zoomed])
			zoomed = tree.parent[zoomed];
		this.zoomed = zoomed;
		if (this.selected >= tree.count || !tree.total[this.selected])
			this.selected = zoomed;
		this.range = this.rangeOf(zoomed);
		this.hovered = null;
		this.layout();
	}

	/* The part [from, to] of all time that a node takes. */
	rangeOf(node) {
		let from = 0;
		for (let at = node; at; at = this.tree.parent[at])
			for (const sibling of this.tree.childrenOf(this.tree.parent[at])) {
				if (sibling === at)
					break;
				from += this.tree.total[sibling];
			}
		return [from, from + this.tree.total[node]];
	}

	zoom(node) {
		const start = this.range, end = this.rangeOf(node);
		const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
		const began = performance.now();
		this.zoomed = this.selected = node;
		this.unhover();
		cancelAnimationFrame(this.animation);
		const step = now => {
			const t = quick ? 1 : Math.min(1, (now - began) / 160), ease = 1 - (1 - t) ** 3;
			this.range = start.map((from, i) => from + (end[i] - from) * ease);
			this.layout();
			if (t < 1)
				this.animation = requestAnimationFrame(step);
			else
				this.reveal(node);
		};
		step(began);
	}

	resize() {
		const ratio = window.devicePixelRatio || 1;
		this.width = this.scroller.clientWidth;
		this.height = this.scroller.clientHeight;
		this.canvas.width = Math.round(this.width * ratio);
		this.canvas.height = Math.round(this.height * ratio);
		this.canvas.style.width = this.width + "px";
		this.canvas.style.height = this.height + "px";
		this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
		if (this.tree)
			this.layout();
	}

	/* Boxes of all rows, as wide as they are now. */
	layout() {
		const { tree, width } = this, [from, to] = this.range;
		const scale = to > from ? width / (to - from) : 0;
		this.boxes = [];
		const place = (node, at, depth) => {
			const x = (at - from) * scale, w = tree.total[node] * scale;
			this.box(depth, { node, x, w, rest: 0 });
			const children = tree.childrenOf(node);
			for (let i = 0; i < children.length; i++) {
				const size = tree.total[children[i]];
				if (at >= to)
					return;
				if (size * scale < MIN_WIDTH) {
					this.placeRest(node, children, i, at, from, scale, depth + 1);
					return;
				}
				if (at + size > from)
					place(children[i], at, depth + 1);
				at += size;
			}
		};
		if (scale)
			place(0, 0, 0);
		this.rows = this.boxes.length;
		this.spacer.style.height = Math.max(this.rows * ROW + 4, this.height) + "px";
		this.requestPaint();
	}

	/* Children too narrow for a box of their own are one box together. */
	placeRest(node, children, i, at, from, scale, depth) {
		let size = 0;
		for (let j = i; j < children.length; j++)
			size += this.tree.total[children[j]];
		const x = (at - from) * scale, w = size * scale;
		if (w >= MIN_WIDTH && x + w > 0 && x < this.width)
			this.box(depth, { node, x, w, rest: children.length - i, size });
	}

	box(depth, box) {
		const left = Math.max(0, box.x), right = Math.min(this.width, box.x + box.w);
		if (right <= left)
			return;
		box.left = left;
		box.wide = right - left;
		(this.boxes[depth] ??= []).push(box);
	}

	top(depth) {
		const space = Math.max(this.rows * ROW + 4, this.height);
		return this.flipped ? space - (depth + 1) * ROW : depth * ROW;
	}

	requestPaint() {
		this.frame ??= requestAnimationFrame(() => {
			this.frame = null;
			this.paint();
		});
	}

	paint() {
		const { context, palette } = this, scroll = this.scroller.scrollTop;
		const ratio = window.devicePixelRatio || 1;
		if (Math.round(this.width * ratio) !== this.canvas.width)
			this.resize();
		context.fillStyle = palette.ground;
		context.fillRect(0, 0, this.width, this.height);
		context.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
		context.textBaseline = "middle";
		const above = this.tree.path(this.zoomed).length;
		for (let depth = 0; depth < this.rows; depth++) {
			const y = this.top(depth) - scroll;
			if (y > -ROW && y < this.height)
				for (const box of this.boxes[depth])
					this.paintBox(box, y, depth < above);
		}
	}

	paintBox(box, y, ancestor) {
		const { context, palette } = this;
		const gap = box.wide > 3 ? 1 : 0, w = box.wide - gap, h = ROW - 1;
		const matches = this.match && !box.rest && box.node && this.match[this.tree.func[box.node]];
		const dim = this.match ? !matches : false;
		context.globalAlpha = dim ? 0.28 : ancestor ? 0.6 : 1;
		context.fillStyle = matches ? palette.mark : this.fill(box);
		context.fillRect(box.left, y, w, h);
		if (!box.rest && (box.node || this.rootIsFunction) && w > 10 && palette.mode === "wait")
			this.paintStrip(box, y + h - STRIP, w);
		context.globalAlpha = dim ? 0.6 : 1;
		if (w > 22)
			this.paintText(box, y, w, matches);
		context.globalAlpha = 1;
		this.paintFrame(box, y, w, h);
	}

	paintFrame(box, y, w, h) {
		const { context, palette } = this;
		const isHovered = this.hovered && this.hovered.node === box.node && this.hovered.rest === box.rest;
		const isSelected = this.selected && this.selected === box.node && !box.rest;
		if (!isHovered && !isSelected)
			return;
		context.strokeStyle = palette.focus;
		context.lineWidth = isSelected ? 2 : 1.5;
		context.strokeRect(box.left + 1, y + 1, Math.max(1, w - 2), h - 2);
	}

	fill(box) {
		const { palette, tree } = this;
		if (box.rest)
			return palette.rest;
		if (!box.node && !this.rootIsFunction)
			return palette.root;
		const func = tree.func[box.node];
		if (palette.mode === "package")
			return palette.package(func);
		if (palette.mode === "change")
			return palette.change(changeOf(tree.before[box.node], tree.after[box.node]));
		return palette.shade(palette.kinds[this.mainCategory(box.node)], func);
	}

	mainCategory(node) {
		const { parts, categories } = this.tree;
		let best = 0;
		for (let c = 1; c < categories; c++)
			if (parts[node * categories + c] > parts[node * categories + best])
				best = c;
		return best;
	}

	/* What of a node's time is not of its main kind: bars at the foot of its box, on the right. */
	paintStrip(box, y, w) {
		const { parts, categories, total } = this.tree, base = box.node * categories;
		const all = total[box.node], main = this.mainCategory(box.node);
		let x = box.left + parts[base + main] / all * w;
		for (let c = 0; c < categories; c++) {
			if (c === main)
				continue;
			const part = parts[base + c] / all * w;
			this.context.fillStyle = this.palette.strips[c];
			if (part > 0.5)
				this.context.fillRect(x, y, part, STRIP);
			x += part;
		}
	}

	paintText(box, y, w, matches) {
		const { context, palette } = this;
		const text = this.fitted(this.title(box), w - 2 * PAD);
		if (!text)
			return;
		const onGround = !box.node && !this.rootIsFunction || box.rest;
		context.fillStyle = matches ? palette.markText : onGround ? palette.rootText : palette.text;
		context.fillText(text, box.left + PAD, y + ROW / 2 - 1.5);
	}

	/* Names of a box from the longest to the shortest. */
	title(box) {
		if (box.rest)
			return [`${box.rest} more`, `+${box.rest}`];
		if (!box.node)
			return this.rootIsFunction ? shorterNames(this.rootTitle) : [this.rootTitle, "all"];
		const func = this.tree.func[box.node];
		return (this.names[func] ??= shorterNames(this.profile.strings[func]));
	}

	fitted(names, room) {
		for (const name of names)
			if (this.textWidth(name) <= room)
				return name;
		const last = names[names.length - 1];
		let n = Math.floor(last.length * room / this.textWidth(last));
		while (n >= 2 && this.textWidth(last.slice(0, n) + "…") > room)
			n--;
		return n >= 2 ? last.slice(0, n) + "…" : "";
	}

	textWidth(text) {
		let width = this.widths.get(text);
		if (width === undefined) {
			width = this.context.measureText(text).width;
			this.widths.set(text, width);
		}
		return width;
	}

	boxAt(event) {
		const rect = this.canvas.getBoundingClientRect();
		const x = event.clientX - rect.left, y = event.clientY - rect.top + this.scroller.scrollTop;
		const space = Math.max(this.rows * ROW + 4, this.height);
		const depth = Math.floor((this.flipped ? space - y : y) / ROW);
		return this.boxes[depth]?.find(b => x >= b.left && x < b.left + b.wide) ?? null;
	}

	hover(event) {
		const box = this.boxAt(event);
		if (box?.node !== this.hovered?.node || box?.rest !== this.hovered?.rest) {
			this.hovered = box;
			this.requestPaint();
		}
		this.canvas.style.cursor = box ? "pointer" : "default";
		this.on.hover(this, box, event);
	}

	unhover() {
		this.hovered = null;
		this.on.hover(this, null);
		this.requestPaint();
	}

	click(event) {
		const box = this.boxAt(event);
		if (box)
			this.on.zoom(this, box.node);
	}

	select(node) {
		this.selected = node;
		this.reveal(node);
		this.on.select(this, node);
	}

	reveal(node) {
		const y = this.top(this.tree.path(node).length);
		if (y < this.scroller.scrollTop)
			this.scroller.scrollTop = y - ROW;
		else if (y + ROW > this.scroller.scrollTop + this.height)
			this.scroller.scrollTop = y + 2 * ROW - this.height;
		this.requestPaint();
	}

	/* An arrow key: to the caller, the greatest callee, or a neighbour. */
	walk(key) {
		const { tree, selected } = this;
		const inward = this.flipped ? "ArrowUp" : "ArrowDown";
		if (key === inward)
			return this.select(tree.childrenOf(selected)[0] ?? selected);
		if (key === "ArrowUp" || key === "ArrowDown")
			return this.select(selected ? tree.parent[selected] : 0);
		if (!selected)
			return;
		const siblings = tree.childrenOf(tree.parent[selected]);
		const next = siblings[siblings.indexOf(selected) + (key === "ArrowRight" ? 1 : -1)];
		if (next !== undefined)
			this.select(next);
	}
}
