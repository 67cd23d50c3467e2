// Small helpers for the page's elements.

/** The element of this id; a page without it is a bug of ours. */
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

/** Show `text` in a paragraph, or hide it where there is none. */
export function note(paragraph, text) {
  paragraph.textContent = text ?? "";
  paragraph.hidden = !text;
}

/** The value of the checked one of a group of radio buttons. */
export function chosen(name) {
  return document.querySelector(`input[name="${name}"]:checked`).value;
}

/** Give the reader a file, from memory. */
export function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function wantsCalm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
