"use strict";
// The frame of the page: a bar with all views; the open view is in the URL.

/** Each {name, title, open(root)}: opened once, when first selected; open is async. View scripts add theirs. */
const views = [];
const opened = new Map();

/** The server facts in the bar. */
const facts = el("div.facts.soft.small", {role: "status"});

addEventListener("DOMContentLoaded", () => {
  const tabs = el("nav.tabs", {"aria-label": "Views"}, ...views.map(view =>
    el("button", {type: "button", onclick: () => location.hash = view.name}, view.title)));
  document.getElementById("top").append(el("div.top", {}, el("div.brand", {}, el("img", {src: "/page/icon.svg", alt: ""}), "Starforge"),
    tabs, facts, themeButton()));
  tabs.hidden = views.length < 2;
  const show = () => {
    const index = Math.max(0, views.findIndex(view => "#" + view.name === location.hash)), view = views[index];
    if (!opened.has(view)) {
      const root = el("div." + view.name);
      opened.set(view, root);
      document.getElementById("main").append(root);
      view.open(root).catch(failure => root.append(card("w12", "Error", el("p.wrong", {role: "alert"}, failure.message))));
    }
    opened.forEach((root, each) => root.hidden = each !== view);
    [...tabs.children].forEach((tab, i) => tab.setAttribute("aria-pressed", i === index));
  };
  addEventListener("hashchange", show);
  show();
});
