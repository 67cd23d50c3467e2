// Tabs of the panels: arrow keys change the tab, and a click on the open tab closes its panel.

export class Tabs {
  #tabs;

  /** `list` has role=tablist; aria-controls of each tab is its panel. */
  constructor(list) {
    this.#tabs = [...list.querySelectorAll('[role="tab"]')];
    this.open(null);
    list.addEventListener("click", ({ target }) => {
      const tab = target.closest('[role="tab"]');
      if (tab !== null) this.open(tab.getAttribute("aria-selected") === "true" ? null : tab.id);
    });
    list.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Open the tab with this id, or close all with null. */
  open(id) {
    const reachable = this.#tabs.some((tab) => tab.id === id) ? id : this.#tabs[0].id;
    for (const tab of this.#tabs) {
      tab.setAttribute("aria-selected", String(tab.id === id));
      tab.tabIndex = tab.id === reachable ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab.id !== id;
    }
  }

  #onKey(event) {
    const tabs = this.#tabs.filter((tab) => !tab.hidden);
    const at = tabs.indexOf(document.activeElement);
    const last = tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at <= 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.open(tabs[to].id);
    tabs[to].focus();
  }
}
