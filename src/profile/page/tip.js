/* What is said of one frame, by the tooltip and at the foot of the page. */

class Teller {
	constructor(page) {
		this.page = page;
		this.profile = page.profile;
	}

	use(profile) {
		this.profile = profile;
	}

	/* A word for the time of a node, by what it waits for: [kind, words, time], most first. */
	division(tree, node) {
		const { values } = tree, { sampleKind, sampleWait, strings } = this.profile;
		const below = new Uint8Array(tree.count), sums = new Map();
		below[node] = 1;
		for (let i = node + 1; i < tree.count; i++)
			below[i] |= below[tree.parent[i]];
		for (let i = 0; i < values.length; i++) {
			if (!values[i] || !below[tree.leaves[i]])
				continue;
			const kind = sampleKind[i], key = kind * strings.length + (kind >= WAITING ? sampleWait[i] : 0);
			sums.set(key, (sums.get(key) || 0) + values[i]);
		}
		if (this.profile.unit)
			return [];
		return [...sums].sort((a, b) => b[1] - a[1]).map(([key, time]) => {
			const kind = Math.floor(key / strings.length), wait = strings[key % strings.length];
			return [kind, kind >= WAITING ? "blocked on " + (wait || NO_VALUE) : KINDS[kind].title, time];
		});
	}

	numbers(graph, node) {
		const { total, self, parent, before, after } = graph.tree, { page } = this;
		if (page.comparison)
			return page.comparison.rows(before[node], after[node]);
		const time = total[node], whole = page.filtered.total;
		const rows = [[this.profile.unit === "bytes" ? "memory" : "time", `${page.format(time)} · ${formatShare(time, whole)}`]];
		if (page.view.metric === "count")
			rows[0][0] = "seen";
		if (node)
			rows.push([graph.inverted ? "of its callee" : "of its caller", formatShare(time, total[parent[node]])]);
		if (!graph.inverted)
			rows.push(["self", `${page.format(self[node])} · ${formatShare(self[node], whole)}`]);
		if (page.view.metric === "wall" && page.duration && !this.profile.unit)
			rows.push(["on average", formatAmount(time / page.duration, "goroutine")]);
		return rows;
	}

	/* For one line: what most of the time was, then the numbers. */
	summary(graph, node) {
		const rows = this.numbers(graph, node), parts = node || graph.rootIsFunction ? this.division(graph.tree, node) : [];
		const all = parts.reduce((sum, [, , time]) => sum + time, 0);
		return [...parts.slice(0, 1).map(([, words, time]) => [words, formatShare(time, all)]), ...rows]
			.map(([what, value]) => `${what} ${value}`).join(",  ");
	}

	/* Where in the source a frame stands: "file:line", most time first. */
	places(graph, node) {
		const p = this.profile, { page } = this;
		if (!node)
			return [];
		if (graph.tree !== page.trees.base) {
			const line = p.lineFunction.indexOf(graph.tree.func[node]);
			return line >= 0 && p.lineFile[line] ? [p.strings[p.lineFile[line]]] : [];
		}
		const lines = page.trees.linesOf(node, page.filtered.values), all = lines.reduce((sum, [, time]) => sum + time, 0);
		return lines.filter(([line]) => p.lineFile[line]).map(([line, time]) =>
			`${p.strings[p.lineFile[line]]}:${p.lineNumber[line]}` + (lines.length > 1 ? `  ${formatShare(time, all)}` : ""));
	}

	name(graph, node) {
		return node ? this.profile.strings[graph.tree.func[node]] : graph.rootTitle;
	}

	frame(graph, node) {
		const places = this.places(graph, node), division = this.division(graph.tree, node);
		const all = division.reduce((sum, [, , time]) => sum + time, 0);
		const place = text => element("p", { className: "place", textContent: text });
		const tip = [element("strong", { textContent: this.name(graph, node) })];
		tip.push(...division.slice(0, 4).map(([kind, words, time]) => element("p", { className: "division" }, swatch(kind),
			element("span", { textContent: words }), element("em", { textContent: formatShare(time, all) }))));
		tip.push(element("dl", {}, ...this.numbers(graph, node).flatMap(([name, value]) =>
			[element("dt", { textContent: name }), element("dd", { textContent: value })])));
		tip.push(...places.slice(0, 3).map(place));
		if (places.length > 3)
			tip.push(place(`and ${formatCount(places.length - 3, "more line")}`));
		return tip;
	}

	rest(box) {
		return [element("strong", { textContent: formatCount(box.rest, "more function") }),
			element("p", { textContent: `too narrow to show: ${this.page.format(box.size)} in all. Zoom into their caller to see them.` })];
	}
}

class Tooltip {
	constructor(teller) {
		this.teller = teller;
		this.tip = $("tooltip");
	}

	show(graph, box, event) {
		const text = () => box.rest ? this.teller.rest(box) : this.teller.frame(graph, box.node);
		if (this.begin(box, event) && this.box !== box)
			this.tip.replaceChildren(...text());
		this.box = box;
		this.place(event);
	}

	showText(box, event) {
		if (this.begin(box, event))
			this.tip.replaceChildren(...box.text);
		this.box = null;
		this.place(event);
	}

	begin(box, event) {
		this.tip.hidden = !box || event.pointerType === "touch";
		return !this.tip.hidden;
	}

	place(event) {
		const { tip } = this;
		if (tip.hidden)
			return;
		const { clientX: x, clientY: y } = event, { offsetWidth: w, offsetHeight: h } = tip;
		tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - w - 8)) + "px";
		tip.style.top = (y + 18 + h > innerHeight - 8 ? Math.max(8, y - h - 12) : y + 18) + "px";
	}
}
