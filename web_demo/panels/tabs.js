// The engineer's sections as tabs: arrow keys move, and the open tab pressed again folds everything away.

export class Tabs {
  #tabs;

  /** `list`: an element with role=tablist, whose tabs name their panels in aria-controls. */
  constructor(list) {
    this.#tabs = [...list.querySelectorAll('[role="tab"]')];
    this.open(null);
    list.addEventListener("click", ({ target }) => {
      const tab = target.closest('[role="tab"]');
      if (tab !== null) this.open(tab.getAttribute("aria-selected") === "true" ? null : tab.id);
    });
    list.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Show the panel of the tab with this id, or none. */
  open(id) {
    const reachable = this.#tabs.some((tab) => tab.id === id) ? id : this.#tabs[0].id;
    for (const tab of this.#tabs) {
      tab.setAttribute("aria-selected", String(tab.id === id));
      tab.tabIndex = tab.id === reachable ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab.id !== id;
    }
  }

  #onKey(event) {
    const at = this.#tabs.indexOf(document.activeElement);
    const last = this.#tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at <= 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.open(this.#tabs[to].id);
    this.#tabs[to].focus();
  }
}
