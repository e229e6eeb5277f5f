"use strict";
// A training run at a glance: the report of one that has ended, and the page of one that goes on.

/** An exponential mean over a twentieth of the run. */
function smooth(points) {
  const keep = 1 - 1 / Math.max(1, points.length / 20);
  let sum = 0, weight = 0;
  return points.map(([step, value]) => {
    sum = keep * sum + value;
    weight = keep * weight + 1;
    return [step, sum / weight];
  });
}

const STATUS = {loading: "loading", running: "running", finished: "finished", interrupted: "interrupted, can be resumed", failed: "failed",
  stopped_early: "stopped early: the validation loss no longer fell"};

/** Says what a run is: {status, lines, samples, summary, next, model, device, steps, elapsed, evaluating}; what is not known is left out. */
function runView(root) {
  const title = el("div"), figures = el("div.grid"), progress = el("div.grid"), next = el("div.grid"), samples = el("div.grid");
  const charts = {loss: lineChart("Loss"), lr: lineChart("Learning rate", value => value ? value.toExponential(1) : "0"),
    norm: lineChart("Gradient norm, before clipping"), speed: lineChart("Tokens per second", short),
    memory: lineChart("Memory", bytes), busy: lineChart("Utilization of the GPU, or of the cores", value => figure(100 * value) + " %")};
  const details = el("div.grid");
  root.append(title, figures, progress, next, samples, el("div.grid", {}, ...Object.values(charts)), details);
  let shown = "";
  return run => {
    const steps = run.lines.filter(line => "loss" in line), evaluations = run.lines.filter(line => Number.isFinite(line.eval_loss));
    const said = JSON.stringify([run.samples, run.next, run.model, run.device]);
    if (said !== shown) { // what a reader may have selected or scrolled stays as it is
      shown = said;
      title.replaceChildren(runTitle(run));
      next.replaceChildren(...run.next ? [card("w12", "Next", ...commands(run.next))] : []);
      samples.replaceChildren(...runSamples(run.samples || []));
    }
    title.querySelector(".status").textContent = STATUS[run.status];
    figures.replaceChildren(...runFigures(run, steps, evaluations));
    progress.replaceChildren(...run.status === "running" ? [runProgress(run, steps)] : []);
    runCharts(charts, steps, evaluations);
    details.replaceChildren(...runDetails(run, steps));
  };
}

function runTitle({model, device}) {
  const name = (model || "").replace(/\/+$/, "").split("/").pop() || "Training run";
  const made = heading(name, [...model && model !== name ? [model] : [], ...device ? [device] : [], ""].join(" · "));
  made.querySelector(".soft").append(el("span.status"));
  return made;
}

function runFigures({summary = {}, elapsed, status}, steps, evaluations) {
  const losses = evaluations.map(line => line.eval_loss), last = steps.at(-1), best = Math.min(...losses);
  const cards = [];
  if (losses.length) {
    const note = `at step ${evaluations.find(line => line.eval_loss === best).step} · perplexity ${figure(Math.exp(best))}`;
    cards.push(losses.length > 1
      ? figureCard("Validation loss", `${losses[0].toFixed(3)} → ${best.toFixed(3)}`, "first → best, " + note)
      : figureCard("Validation loss", best.toFixed(3), note));
  } else if (last) {
    cards.push(figureCard("Training loss", `${figure(steps[0].loss)} → ${figure(last.loss)}`, "first → last"));
  }
  const seconds = summary.elapsed_seconds ?? elapsed;
  cards.push(figureCard("Time", duration(seconds), summary.training_seconds === undefined
    ? (status === "running" ? "since the start" : "")
    : `training ${duration(summary.training_seconds)}, evaluation ${duration(summary.evaluation_seconds)}`));
  if (last) {
    const speed = summary.tokens_per_second || last.tokens_per_second;
    const most = name => steps.reduce((found, line) => Math.max(found, line[name] || 0), 0);
    cards.push(figureCard("Tokens", short(last.tokens), `${short(last.loss_tokens)} in the loss · ${short(speed)} a second`));
    cards.push(figureCard("Memory", bytes(most("memory_bytes")), most("resident_bytes") ? `tensors · process ${bytes(most("resident_bytes"))}` : "tensors"));
  }
  return cards;
}

function runProgress({steps: all, evaluating}, steps) {
  const done = steps.at(-1)?.step || 0, fill = el("div.fill");
  fill.style.width = 100 * done / all + "%";
  const text = evaluating ? `evaluating, ${Math.round(100 * evaluating)} %` : steps.length > 2 ? `about ${duration(pace(steps) * (all - done))} left` : "";
  return el("section.card.w12", {"aria-label": "Progress"},
    el("div.ends", {}, el("span", {}, `Step ${done.toLocaleString("en")} of ${all.toLocaleString("en")}`), el("span.soft", {}, text)),
    el("div.track", {}, fill));
}

/** Seconds that a step takes, by the latest ones; the first is slow and says nothing of the others. */
function pace(steps) {
  const recent = steps.slice(1).slice(-20);
  const seconds = recent.map((line, i) => (line.tokens - steps[steps.length - recent.length + i - 1].tokens) / line.tokens_per_second);
  const covered = recent.at(-1).step - steps[steps.length - recent.length - 1].step;
  return seconds.reduce((sum, each) => sum + each, 0) / covered;
}

function runSamples(samples) {
  if (!samples.length) return [];
  const blocks = samples.flatMap(sample => [el("h3", {}, sample.path || "Held-out text"), el("pre.sunk.soft", {}, sample.prompt),
    ...(sample.original ? [el("h3", {}, "original"), el("pre.sunk", {}, sample.original)] : []),
    el("div.pair", {}, ...["before", "after"].filter(when => when in sample).map(when =>
      el("div", {}, el("h3", {}, when + " training"), el("pre.sunk", {}, sample[when]))))]);
  return [el("section.card.w12.samples", {}, el("h2", {}, "Samples: completions of held-out text"), ...blocks)];
}

function runCharts(charts, steps, evaluations) {
  const points = (lines, name) => lines.filter(line => Number.isFinite(line[name])).map(line => [line.step, line[name]]);
  const loss = points(steps, "loss");
  charts.loss.show([{name: "training", kind: "raw", points: loss}, {name: "training, smoothed", points: smooth(loss)},
    {name: "validation", kind: "second", points: points(evaluations, "eval_loss")}]);
  charts.lr.show([{name: "learning rate", points: points(steps, "lr")}]);
  charts.norm.show([{name: "norm", points: points(steps, "grad_norm")}]);
  charts.speed.show([{name: "tokens/s", points: points(steps, "tokens_per_second")}]);
  charts.memory.show([{name: "tensors", points: points(steps, "memory_bytes")},
    {name: "process", kind: "second", points: points(steps, "resident_bytes").filter(([, value]) => value)},
    {name: "GPU, all processes", kind: "third", points: points(steps, "device_memory_bytes")}]);
  charts.busy.show([{name: "in use", points: points(steps, "utilization")}]);
}

function runDetails({summary = {}}, steps) {
  const last = steps.at(-1);
  if (!last) return [];
  const rows = [["Steps", `${last.step.toLocaleString("en")}, ${figure(last.epoch)} epochs`], ["Training loss", figure(last.loss) + " in the last step"]];
  if (summary.val_sample?.text) rows.push(["Evaluated on", summary.val_sample.text]);
  if (Number.isFinite(summary.final_val_loss)) rows.push(["Last validation loss", `${figure(summary.final_val_loss)}, perplexity ${figure(summary.final_perplexity)}`]);
  if (summary.skipped_steps) rows.push(["Steps skipped", `${summary.skipped_steps}, not finite`]);
  if (summary.train_data?.note) rows.push(["Left out of training", summary.train_data.note]);
  if (summary.val_data?.note) rows.push(["Left out of validation", summary.val_data.note]);
  return [card("w12", "Details", table([], rows, "text"))];
}

const ended = document.getElementById("data");
if (ended) runView(document.getElementById("main"))(JSON.parse(ended.textContent));
