"use strict";
// The report of a dataset: token counts, samples, their distribution over time, dropped files and redacted values.

const data = JSON.parse(document.getElementById("data").textContent);
const SPLITS = [["train", "Training", ""], ["val", "Validation", "second"], ["test", "Test", "third"]];

const at = (node, path) => path.reduce((found, key) => found?.[key], node);
const sum = (...path) => data.generations.reduce((total, generation) => total + (at(generation, path) || 0), 0);

function merged(...path) {
  const all = {};
  for (const generation of data.generations) {
    for (const [key, number] of Object.entries(at(generation, path) || {})) all[key] = (all[key] || 0) + number;
  }
  return all;
}

function headline() {
  const licenses = Object.entries(data.licenses).map(([path, license]) => license + (path === "." ? "" : ` (${path})`));
  const left = sum("leakage", "dropped") + sum("leakage", "tombstones"), shared = sum("leakage", "shared_windows");
  const cards = SPLITS.map(([split, name, colour]) => figureCard(name, short(sum("splits", split, "tokens")),
    `tokens in ${count(sum("splits", split, "documents"), "document")} of ${count(sum("splits", split, "commits"), "commit")}`, colour));
  cards.push(figureCard("Leakage between splits", "0 leaks",
    (left ? `${count(left, "training text")} removed` : "no training text had to be removed")
    + (shared ? `; ${count(shared, "boilerplate window")} shared` : "")));
  return [
    heading(data.name, [`commit ${data.head.slice(0, 12)}`, `${data.tokenizer.family} samples`,
      `vocabulary of ${short(data.tokenizer.vocabulary)}`, licenses.join(", ") || "no license found"].join(" · ")),
    el("div.grid", {}, ...cards)];
}

const press = (buttons, pressed) => [...buttons.children].forEach((button, i) => button.setAttribute("aria-pressed", i === pressed));

function samples() {
  const filled = SPLITS.filter(([split]) => data.samples[split].length);
  if (!filled.length) return [];
  const tabs = el("div.tabs"), list = el("div.list"), text = el("pre", {tabIndex: 0, "aria-label": "The sample"});
  const show = (sample, i) => {
    text.replaceChildren(...sample.runs.map(([part, kind]) => el("span." + ["soft", "learned", "special"][kind], {}, part)));
    const first = text.querySelector(".learned");
    text.scrollTop = first ? first.offsetTop - text.offsetTop - 60 : 0;
    press(list, i);
  };
  const open = (split, tab) => {
    list.replaceChildren(...data.samples[split].map((sample, i) => el("button", {type: "button", onclick: () => show(sample, i)},
      el("div", {}, sample.id.split("-")[0] + " · " + (sample.directory.split("/").slice(-2).join("/") || "/")),
      el("div.soft.small", {}, `${count(sample.tokens, "token")} · ${day(sample.time)}`))));
    press(tabs, tab);
    show(data.samples[split][0], 0);
  };
  tabs.append(...filled.map(([split, name], i) => el("button", {type: "button", onclick: () => open(split, i)}, name)));
  const key = el("div.key.mono", {}, el("span.learned", {}, "counts in the loss"), el("span.soft", {}, "context, not in the loss"),
    el("span.special", {}, "special token"));
  const section = card("w12", "Samples", tabs, el("div.viewer", {}, list, text), key);
  queueMicrotask(() => open(filled[0][0], 0)); // it scrolls to what counts, which needs a place in the page
  return [section];
}

function overTime() {
  const buckets = data.timeline.buckets || [], {from, span} = data.timeline;
  if (!buckets.length) return [];
  const legend = SPLITS.map(([, name, colour]) => el("span", {}, el("span.dot" + (colour && "." + colour)), name));
  return [card("w12", "Tokens over time", el("div.legend", {}, ...legend),
    blockChart("Tokens over time", SPLITS.map(([, name]) => name), buckets, i => day(from + i * span)))];
}

function counted(title, counts, colour) {
  return Object.keys(counts).length ? [card("w6", title, ...bars(counts, colour))] : [];
}

function replaced() {
  const rules = merged("redactions", "rules"), examples = data.generations.flatMap(generation => generation.redactions.examples || []);
  const rows = Object.keys(rules).sort().flatMap(rule => examples.filter(example => example.rule === rule).slice(0, 3)
    .map((example, i) => [i ? "" : rule, i ? "" : short(rules[rule]), el("span.mono", {}, example.masked),
      example.path ? `${example.path}:${example.line}` : "a commit message"]));
  return rows.length ? [card("w12", "Redacted values", table(["rule", "count", "masked example", "first in"], rows, "left"))] : [];
}

function generations() {
  const head = ["generation", "commits", "files kept", "chunks kept", "training", "validation", "test", "replaced", "tombstones"];
  const rows = data.generations.map(({head: commit, commits, counts, splits, redactions, leakage}, i) => [
    `${i} · ${commit.slice(0, 10)}`, short(commits),
    `${short(counts.files_kept)} of ${short(counts.files)}`, `${short(counts.chunks_kept)} of ${short(counts.chunks)}`,
    ...SPLITS.map(([split]) => short(splits[split].tokens)),
    short(redactions.keys + redactions.passwords + redactions.emails), short(leakage.tombstones)]);
  return card("w12", "Generations", table(head, rows));
}

document.getElementById("main").append(...headline(), el("div.grid", {}, ...samples(), ...overTime(),
  ...counted("Files by language", merged("languages")), ...counted("Dropped, by reason", merged("dropped"), "third"),
  ...replaced(), generations()));
