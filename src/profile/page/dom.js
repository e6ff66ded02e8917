const $ = id => document.getElementById(id);

function element(tag, properties, ...children) {
	const e = Object.assign(document.createElement(tag), properties);
	e.append(...children);
	return e;
}

/* `colour` as text, or a kind's. */
function swatch(colour) {
	const e = element("i", { className: "swatch" });
	e.style.background = typeof colour === "number" ? `var(--kind-${KINDS[colour].id})` : colour;
	return e;
}

function button(text, onclick, more = {}) {
	return element("button", { type: "button", textContent: text, onclick, ...more });
}
