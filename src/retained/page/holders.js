/* What the page of `gospect heap --retained` has beside the treemap. */
const number = n => n.toLocaleString("en");

function showMore(node) {
	const table = byId("referrers");
	clear(table);
	row(table, "th", ["pointers", "from"]);
	for (const [name, count] of node.referrers || [])
		row(table, "td", [number(count), name]);
	if (node.count)
		byId("facts").textContent = `${facts} · ${number(node.count)} × ${node.name}: ${amount(node.own)} of their own`;
	else
		byId("facts").textContent = facts;
}

const facts = [`${number(data.objects)} objects of ${amount(data.retained_bytes)} are held, of ${amount(data.heap_bytes)} in spans of the heap`].join();

function showTables() {
	const types = byId("types"), strings = byId("strings");
	row(types, "th", ["bytes", "retained", "objects", "type"]);
	for (const t of data.types.slice(0, 100))
		row(types, "td", [amount(t.bytes), amount(t.retained_bytes), number(t.count), t.name]);
	row(strings, "th", ["wasted", "copies", "length", "string"]);
	for (const s of data.strings.slice(0, 50))
		row(strings, "td", [amount(s.wasted_bytes), number(s.count), number(s.length), s.text]);
}

const name = data.process.exe.split("/").pop() || "heap";
document.title = name + " heap: retained memory";
byId("command").textContent = name;
byId("advice").textContent = data.exact
	? "The program did not run while it was read: the numbers are exact."
	: `This is an estimate: the program ran on, and ${data.error_percent} % of its pointers changed while they were read.`;
showTables();
show();
