/* The functions of a profile as a table, by their own time and by time with what they call. */

const ROWS_AT_ONCE = 200;

class FunctionTable {
	constructor(profile, on) {
		this.profile = profile;
		this.on = on;
		this.rows = [];
		this.limit = ROWS_AT_ONCE;
		this.body = document.getElementById("rows");
		this.more = document.getElementById("more");
		this.caption = document.getElementById("table-caption");
		for (const head of document.querySelectorAll("th[data-sort]"))
			head.firstElementChild.addEventListener("click", () => on.sort(head.dataset.sort));
		this.more.addEventListener("click", () => {
			this.limit += ROWS_AT_ONCE;
			this.draw();
		});
	}

	show(rows, match, sort, total, format) {
		const names = this.profile.strings;
		const orders = {
			self: (a, b) => b.self - a.self || b.total - a.total,
			total: (a, b) => b.total - a.total || b.self - a.self,
			name: (a, b) => names[a.func] < names[b.func] ? -1 : 1,
		};
		this.rows = (match ? rows.filter(row => match[row.func]) : rows).sort(orders[sort]);
		this.all = rows.length;
		this.total = total;
		this.format = format;
		this.limit = ROWS_AT_ONCE;
		for (const head of document.querySelectorAll("th[data-sort]"))
			head.ariaSort = head.dataset.sort !== sort ? null : sort === "name" ? "ascending" : "descending";
		this.draw();
	}

	draw() {
		this.caption.textContent = this.rows.length === this.all ? `${this.all.toLocaleString("en")} functions` :
			`${this.rows.length.toLocaleString("en")} of ${this.all.toLocaleString("en")} functions`;
		this.body.replaceChildren(...this.rows.slice(0, this.limit).map(row => this.row(row)));
		this.more.hidden = this.rows.length <= this.limit;
	}

	row(row) {
		const tr = document.createElement("tr");
		const name = document.createElement("button");
		name.type = "button";
		name.className = "link";
		name.textContent = this.profile.strings[row.func];
		name.title = "Show it in the flame graph";
		name.addEventListener("click", () => this.on.find(row.func));
		tr.append(this.cell(row.self), this.cell(row.total), document.createElement("td"));
		tr.lastChild.append(name);
		return tr;
	}

	cell(value) {
		const td = document.createElement("td");
		const share = document.createElement("em");
		td.className = "number";
		td.style.setProperty("--part", (this.total ? 100 * value / this.total : 0) + "%");
		share.textContent = formatShare(value, this.total);
		td.append(this.format(value), " ", share);
		return td;
	}
}
