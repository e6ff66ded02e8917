/* The source of the selected function, where the page has it (record --source): each line with its time. */

const SOURCE_AROUND = 20;

class SourcePanel {
	constructor(profile) {
		this.use(profile);
		/* Arrows scroll here; elsewhere they walk the frames. */
		$("panel-source").addEventListener("keydown", e => {
			if (/^(Arrow|Backspace$)/.test(e.key))
				e.stopPropagation();
		});
	}

	use(profile) {
		this.files = new Map();
		for (const { file, first, lines } of profile.sources)
			this.files.set(file, [...this.files.get(file) || [], { first, lines }]);
		$("tab-source").hidden = !this.files.size;
	}

	get isThere() {
		return this.files.size > 0;
	}

	/* `lines`: of the function, most time first: { file, line, total, self }. */
	show(name, lines, format) {
		const file = lines.find(line => this.files.has(line.file))?.file;
		const times = new Map(lines.filter(line => line.file === file).map(line => [line.line, line]));
		const rows = file === undefined ? [] : this.rows(file, times, format);
		$("source-name").textContent = name;
		$("source-place").textContent = file ?? lines[0]?.file ?? "";
		$("source-none").hidden = rows.length > 0;
		$("source-none").textContent = lines.length ? "The page has no source of this function." : "Select a function in the graph.";
		$("source-table").hidden = !rows.length;
		$("source-rows").replaceChildren(...rows);
		const panel = $("panel-source"), hottest = panel.querySelector(".hottest");
		panel.scrollTop = hottest ? hottest.offsetTop - panel.clientHeight / 2 : 0;
	}

	/* The lines around those that have time, with a gap where some are left out. */
	rows(file, times, format) {
		const rows = [], hot = [...times.keys()], most = Math.max(...[...times.values()].map(line => line.total));
		let last = 0;
		for (const { first, lines } of this.files.get(file)) {
			lines.forEach((text, i) => {
				const number = first + i;
				if (!hot.some(line => Math.abs(line - number) <= SOURCE_AROUND))
					return;
				if (last && number !== last + 1)
					rows.push(element("tr", { className: "gap" }, element("td", { colSpan: 3, textContent: "⋯" })));
				last = number;
				rows.push(this.row(number, text, times.get(number), most, format));
			});
		}
		return times.size && rows.some(row => row.classList.contains("hot")) ? rows : [];
	}

	row(number, text, time, most, format) {
		const cell = element("td", { className: "number" });
		const row = element("tr", {}, element("th", { scope: "row", textContent: number }), cell,
			element("td", { className: "code" }, element("code", { textContent: text })));
		if (!time)
			return row;
		row.classList.add("hot");
		row.classList.toggle("hottest", time.total === most);
		row.dataset.time = Math.round(time.total);
		cell.textContent = format(time.total);
		cell.title = `${format(time.total)} in stacks with this line, ${format(time.self)} of it in the line itself`;
		cell.style.setProperty("--part", 100 * time.total / most + "%");
		return row;
	}
}
