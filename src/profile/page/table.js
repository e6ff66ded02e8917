/* The functions of a profile as a table, by their own time and by time with what they call. */

const ROWS_AT_ONCE = 200;

class FunctionTable {
	constructor(profile, on) {
		this.profile = profile;
		this.on = on;
		this.rows = [];
		this.limit = ROWS_AT_ONCE;
		this.isPlumbing = profile.strings.map(isPlumbing);
		for (const head of document.querySelectorAll("th[data-sort]"))
			head.firstElementChild.addEventListener("click", () => on.sort(head.dataset.sort));
		$("more").addEventListener("click", () => {
			this.limit += ROWS_AT_ONCE;
			this.draw();
		});
		$("plumbing").addEventListener("change", e => on.plumbing(e.target.checked));
	}

	/* `of` is the function that the sandwich shows, or undefined. */
	show(rows, { match, sort, plumbing, total, format, of }) {
		const names = this.profile.strings;
		const orders = {
			self: (a, b) => b.self - a.self || b.total - a.total,
			total: (a, b) => b.total - a.total || b.self - a.self,
			name: (a, b) => names[a.func] < names[b.func] ? -1 : 1,
		};
		const wanted = row => match ? match[row.func] : plumbing || !this.isPlumbing[row.func];
		this.rows = rows.filter(wanted).sort(orders[sort]);
		Object.assign(this, { all: rows.length, total, format, of, limit: ROWS_AT_ONCE });
		$("plumbing").checked = plumbing;
		for (const head of document.querySelectorAll("th[data-sort]"))
			head.ariaSort = head.dataset.sort !== sort ? null : sort === "name" ? "ascending" : "descending";
		this.draw();
	}

	draw() {
		const shown = this.rows.length, all = formatCount(this.all, "function");
		$("table-count").textContent = shown === this.all ? all : `${formatInteger(shown)} of ${all}`;
		$("rows").replaceChildren(...this.rows.slice(0, this.limit).map(row => this.row(row)));
		$("more").hidden = shown <= this.limit;
	}

	row(row) {
		const name = this.profile.strings[row.func];
		const open = element("button", { type: "button", className: "link", title: "Its callers and callees", onclick: () => this.on.open(row.func) }, ...breakable(name));
		const tr = element("tr", {}, this.cell(row.total), this.cell(row.self), element("td", {}, open));
		if (row.func === this.of)
			tr.ariaCurrent = "true";
		return tr;
	}

	cell(value) {
		const td = element("td", { className: "number" });
		if (value)
			td.append(formatShare(value, this.total), " ", element("em", { textContent: this.format(value) }));
		td.style.setProperty("--part", (this.total ? 100 * value / this.total : 0) + "%");
		return td;
	}
}
