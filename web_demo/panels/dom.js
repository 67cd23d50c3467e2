// DOM helpers.

/** The element with this id.  Throws if the page has none. */
export function element(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Show `text` in a paragraph, or hide the paragraph if there is none. */
export function note(paragraph, text) {
  paragraph.textContent = text ?? "";
  paragraph.hidden = !text;
}

/** The value of the checked radio button of a group. */
export function selectedRadio(name) {
  return document.querySelector(`input[name="${name}"]:checked`).value;
}

/** Download a Blob as a file. */
export function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function prefersReducedMotion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
