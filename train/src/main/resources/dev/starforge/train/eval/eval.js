"use strict";
// The report of an evaluation: base, or base against tuned, on held-out documents, every figure with its interval.

const data = JSON.parse(document.getElementById("data").textContent);
const TASKS = [["next_line", "next line"], ["fim_line", "fill in the middle, a line"], ["fim_block", "fill in the middle, a block"],
  ["mid_word", "line from inside a word"], ["fim_mid_word", "fill in the middle, from inside a word"],
  ["word_end", "line from the end of a word"], ["fim_word_end", "fill in the middle, from the end of a word"]];
const FIGURES = [["exact_match", "exact match"], ["edit_similarity", "edit similarity"], ["identifier_f1", "identifier F1"]];
const columns = ["base", "tuned", "tuned_minus_base"].filter(name => data[name]);

const at = (node, path) => path.reduce((found, key) => found?.[key], node);
const share = value => (100 * value).toFixed(1) + " %";
const interval = ({value, low, high}, format) => el("span", {}, format(value), el("span.soft.small.interval", {}, `${format(low)} to ${format(high)}`));

/** A headline: base → tuned, and whether the interval of the difference is clear of zero. */
function headline(label, format, lower, ...path) {
  const base = at(data.base, path), tuned = at(data.tuned, path), difference = at(data.tuned_minus_base, path);
  if (base?.value === undefined) return [];
  if (!tuned) return [figureCard(label, format(base.value), `${format(base.low)} to ${format(base.high)}, 95 %`)];
  const better = lower ? difference.high < 0 : difference.low > 0, worse = lower ? difference.low > 0 : difference.high < 0;
  return [figureCard(label, `${format(base.value)} → ${format(tuned.value)}`,
    better ? "tuned is better, clear of chance" : worse ? "tuned is worse" : "no difference beyond chance")];
}

function rows() {
  const all = [["perplexity", ["perplexity"], figure], ["bits per byte", ["bits_per_byte"], value => value.toFixed(3)]];
  for (const [task, name] of TASKS) {
    for (const [key, label] of FIGURES) all.push([`${name}: ${label}`, [task, key], share]);
  }
  all.push(["prompts: parse rate", ["prompts", "parse_rate"], share]);
  return all.filter(([, path]) => at(data.base, path)?.value !== undefined)
    .map(([name, path, format]) => [name, ...columns.map(column => interval(at(data[column], path) ?? {}, format))]);
}

function prompts() {
  if (!data.prompts?.length) return [];
  const verdict = ({parses}) => parses === null ? "no grammar to ask" : parses ? "parses" : "does not parse";
  return [el("section.card.w12.samples", {}, el("h2", {}, "Completions of prompts by each model"), ...data.prompts.flatMap(prompt => [
    el("h3", {}, prompt.language), el("pre.sunk.soft", {}, prompt.prompt),
    el("div.pair", {}, ...["base", "tuned"].filter(name => prompt[name]).map(name =>
      el("div", {}, el("h3", {}, `${name}: ${verdict(prompt[name])}`), el("pre.sunk", {}, prompt[name].text))))]))];
}

function orientation() {
  const names = {kneser_ney_3_bits_per_byte: "Kneser-Ney, order 3", ppm_5_bits_per_byte: "PPM, order 5", xz_9_bits_per_byte: "xz -9",
    xz_9_after_train_bits_per_byte: "xz -9 after the training text"};
  const known = Object.entries(names).filter(([key]) => Number.isFinite(data.orientation?.[key]));
  return known.length ? [card("w12", "For orientation: bits per byte of others", table([], known.map(([key, name]) => [name, data.orientation[key].toFixed(3)])))] : [];
}

const name = data.model.replace(/\/+$/, "").split("/").pop();
document.getElementById("main").append(
  heading(name, `${data.documents} documents of the ${data.split} split · ${data.sample.text}${data.note ? " · " + data.note : ""}`),
  el("div.grid", {}, ...headline("Bits per byte", value => value.toFixed(3), true, "bits_per_byte"), ...headline("Perplexity", figure, true, "perplexity"),
    ...headline("Fill in the middle, a line", share, false, "fim_line", "exact_match"), ...headline("Next line", share, false, "next_line", "exact_match")),
  el("div.grid", {}, ...prompts(), card("w12", "All figures, with their 95 % intervals",
    table(["", ...columns.map(column => column === "tuned_minus_base" ? "difference" : column)], rows())), ...orientation()));
