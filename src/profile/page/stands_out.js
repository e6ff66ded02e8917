/* Sentences that gospect found in the profile (stands_out.c). Each is a link to a view that shows it. */

function drawStandsOut(sentences, show) {
	$("stands-out").hidden = !sentences.length;
	$("sentences").replaceChildren(...sentences.map(sentence => {
		const link = button(sentence.text, () => show(sentence), { className: "link" });
		return element("li", {}, link);
	}));
}

/* The view of a sentence: filters that leave what it speaks of. */
function viewOfSentence(sentence, first) {
	return {
		...first,
		kinds: new Set(KINDS.map((_, i) => i).filter(i => sentence.kinds.includes(KINDS[i].id))),
		waits: sentence.waits.length ? new Choice(true, sentence.waits) : new Choice(),
		focus: sentence.focus, showIdle: sentence.idle,
	};
}

/* Down from the root while nearly all of the time is in one callee, up to the function of the focus. */
function zoomOfSentence(tree, match) {
	const path = [];
	for (let node = 0; ;) {
		const next = tree.childrenOf(node)[0];
		if (next === undefined || tree.total[next] < 0.95 * tree.total[node])
			return path;
		path.push(tree.func[next]);
		if (match?.[tree.func[next]])
			return path;
		node = next;
	}
}
