/* Lists of values with their shares, to choose from: wait reasons, and the values of each label. */

const FACET_ROWS = 25;

/*
 * rows: {name, value, time, colour}. `set` takes a new choice, `only` a value that alone is wanted.
 */
function drawFacet(facet, { title, kind = "", rows, choice, set, only }) {
	const all = rows.reduce((sum, row) => sum + row.time, 0), shown = rows.slice(0, FACET_ROWS);
	const head = element("h3", {}, kind ? element("small", { textContent: kind + " " }) : "", title);
	if (!choice.isAll)
		head.append(button("all", () => set(new Choice()), { className: "link all" }));
	facet.hidden = !rows.length;
	facet.replaceChildren(head, ...shown.map(row => facetRow(row, all, { title, choice, set, only })));
	if (rows.length > shown.length)
		facet.append(element("p", { className: "quiet", textContent: `and ${formatInteger(rows.length - shown.length)} more` }));
}

function facetRow(row, all, { title, choice, set, only }) {
	const box = element("input", { type: "checkbox", checked: choice.has(row.value) });
	const label = element("label", { className: "check", title: row.name }, box, " ");
	box.dataset.value = row.value;
	box.dataset.focus = `${title}=${row.value}`;
	box.addEventListener("change", () => set(choice.toggled(row.value)));
	if (row.colour !== undefined)
		label.append(swatch(row.colour), " ");
	label.append(element("span", { textContent: row.name }), element("em", { textContent: formatShare(row.time, all) }));
	const line = element("div", { className: "facet-row" }, label,
		button("only", () => only(row.value), { className: "link only", ariaLabel: `only ${row.name}` }));
	line.style.setProperty("--part", (all ? 100 * row.time / all : 0) + "%");
	return line;
}
