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

/* Draws what is in the container anew; the control with the same data-focus has the focus then. */
function keepingFocus(container, draw) {
	const focused = container.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
	draw();
	if (focused !== undefined)
		[...container.querySelectorAll("[data-focus]")].find(e => e.dataset.focus === focused)?.focus();
}
