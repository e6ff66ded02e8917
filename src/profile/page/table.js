/* The functions of a profile as a table, or of two with how they changed. */

const ROWS_AT_ONCE = 200;

/* Columns of numbers: a name, and what sorts by it: the first click, and the next. */
const TIME_COLUMNS = [
	{ name: "total", title: "Total", help: "Time of stacks with the function", sorts: ["total"] },
	{ name: "self", title: "Self", help: "Time in the function itself", sorts: ["self"] },
];
const CHANGE_COLUMNS = [
	{ name: "change", title: "Change", help: "What changed most, what grew, what shrank", sorts: ["change", "grown", "shrunk"] },
	{ name: "before", title: "Before", help: "In the earlier profile", sorts: ["before"] },
	{ name: "after", title: "After", help: "In the later profile", sorts: ["after"] },
];
const NAME_COLUMN = { name: "name", title: "Function", help: "By name", sorts: ["name"] };

class FunctionTable {
	constructor(profile, on) {
		this.on = on;
		this.rows = [];
		this.limit = ROWS_AT_ONCE;
		this.use(profile);
		$("more").addEventListener("click", () => {
			this.limit += ROWS_AT_ONCE;
			this.draw();
		});
		$("plumbing").addEventListener("change", e => on.plumbing(e.target.checked));
	}

	use(profile) {
		this.profile = profile;
		this.isPlumbing = profile.strings.map(isPlumbing);
		this.columns = profile.before ? CHANGE_COLUMNS : TIME_COLUMNS;
	}

	/* `cell` fills a cell: (td, row, column); `of` is the function of the sandwich, or undefined. */
	show(rows, { match, sort, plumbing, cell, of }) {
		const wanted = row => match ? match[row.func] : plumbing || !this.isPlumbing[row.func];
		const column = [...this.columns, NAME_COLUMN].find(c => c.sorts.includes(sort)) || this.columns[0];
		const order = this.order(column.sorts.includes(sort) ? sort : column.sorts[0]);
		this.rows = rows.filter(wanted).sort(order);
		Object.assign(this, { all: rows.length, cell, of, limit: ROWS_AT_ONCE });
		$("plumbing").checked = plumbing;
		keepingFocus($("heads"), () =>
			$("heads").replaceChildren(...[...this.columns, NAME_COLUMN].map(c => this.head(c, c === column ? sort : ""))));
		this.draw();
	}

	order(sort) {
		const names = this.profile.strings, larger = row => Math.max(row.before, row.after);
		const bySize = (a, b) => difference(Math.abs(a.change), Math.abs(b.change)) || larger(b) - larger(a);
		return {
			self: (a, b) => b.self - a.self || b.total - a.total,
			total: (a, b) => b.total - a.total || b.self - a.self,
			change: bySize,
			grown: (a, b) => b.change - a.change,
			shrunk: (a, b) => a.change - b.change,
			before: (a, b) => b.before - a.before,
			after: (a, b) => b.after - a.after,
			name: (a, b) => names[a.func] < names[b.func] ? -1 : 1,
		}[sort];
	}

	/* `sort` is the present one when it is by this column. */
	head(column, sort) {
		const { sorts } = column, next = sorts[(sorts.indexOf(sort) + 1) % sorts.length];
		const th = element("th", { scope: "col", className: column === NAME_COLUMN ? "" : "number" },
			button(column.title + ({ change: " ±", grown: " +", shrunk: " −" }[sort] || ""), () => this.on.sort(next), { title: column.help }));
		th.dataset.sort = th.firstChild.dataset.focus = column.name;
		if (sort)
			th.ariaSort = sort === "name" || sort === "shrunk" ? "ascending" : "descending";
		return th;
	}

	draw() {
		const shown = this.rows.length, all = formatCount(this.all, "function");
		$("table-count").textContent = shown === this.all ? all : `${formatInteger(shown)} of ${all}`;
		keepingFocus($("rows"), () => $("rows").replaceChildren(...this.rows.slice(0, this.limit).map(row => this.row(row))));
		$("more").hidden = shown <= this.limit;
	}

	row(row) {
		const name = this.profile.strings[row.func];
		const open = element("button", { type: "button", className: "link", title: `${name}: its callers and callees`, onclick: () => this.on.open(row.func) },
			...breakable(withoutPath(name)));
		open.dataset.focus = name;
		const cells = this.columns.map(column => {
			const td = element("td", { className: "number" });
			this.cell(td, row, column.name);
			return td;
		});
		const tr = element("tr", {}, ...cells, element("td", {}, open));
		if (row.func === this.of)
			tr.ariaCurrent = "true";
		return tr;
	}
}

/* A part of all time: as a share with a bar, and as time. */
function fillTimeCell(td, value, total, format) {
	td.style.setProperty("--part", (total ? 100 * value / total : 0) + "%");
	if (value)
		td.append(formatShare(value, total), " ", element("em", { textContent: format(value) }));
}

function fillChangeCell(td, row, name, comparison) {
	if (name !== "change")
		return td.append(comparison.format(row[name]));
	const [size, unit] = comparison.formatChange(row.before, row.after).split(" ");
	td.classList.toggle("grown", row.change > 0);
	td.classList.toggle("shrunk", row.change < 0);
	td.append(size, " ", element("em", { textContent: unit ?? "" }));
}
