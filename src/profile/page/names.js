/* Go's names of functions. */

/* "example.com/a/b.(*T).M" is of package "example.com/a/b". */
function packageOf(name) {
	const bracket = name.indexOf("[");
	const head = bracket > 0 ? name.slice(0, bracket) : name;
	const dot = head.indexOf(".", head.lastIndexOf("/") + 1);
	return dot > 0 ? head.slice(0, dot) : head;
}

/* "a/b.(*T).M[a/c.T]" is "b.(*T).M[a/c.T]". */
function withoutPath(name) {
	const head = name.includes("[") ? name.slice(0, name.indexOf("[")) : name;
	return name.slice(head.lastIndexOf("/") + 1);
}

/* From the whole name to the barest: for boxes of any width. */
function shorterNames(name) {
	const plain = withoutPath(name);
	const dot = plain.indexOf(".");
	const bare = dot > 0 && !plain.startsWith("[") ? plain.slice(dot + 1) : plain;
	const method = bare.startsWith("(*") && bare.includes(").") ? bare.slice(bare.indexOf(").") + 2) : bare;
	return [...new Set([name, plain, bare, method])];
}

/* How a goroutine runs or waits, and not what it does. */
function isPlumbing(name) {
	return /^(runtime|internal\/|syscall|reflect|bufio|net)\b/.test(name) && !/^net\//.test(name) ||
		/^net\/http\.(\(\*(Server|conn|ServeMux)\)|serverHandler|HandlerFunc)\.|\.gowrap\d+$/.test(name);
}

/* The text with places where a line may break. */
function breakable(name) {
	return name.split(/(?<=[/.)])/).flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);
}

function quotedExpression(text) {
	return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/* Ignores case unless there is a capital; an expression with an error is taken as plain text. */
function expressionOf(query) {
	const flags = /[A-Z]/.test(query) ? "" : "i";
	try {
		return new RegExp(query, flags);
	} catch {
		return new RegExp(quotedExpression(query), flags);
	}
}

/* Which of the strings match; null for an empty expression. */
function matches(strings, query) {
	if (!query)
		return null;
	const expression = expressionOf(query);
	return strings.map(s => expression.test(s));
}
