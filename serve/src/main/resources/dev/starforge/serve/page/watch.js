"use strict";
// A live training run: the run's report, updated by the server. The final state stays on the screen.

views.push({name: "run", title: "Run", open: async root => {
  const show = runView(root), pause = () => new Promise(resolve => setTimeout(resolve, 2000));
  let over = false;
  while (!over) {
    const run = {status: "loading", lines: []};
    try {
      for await (const {lines, values} of api.events("/run")) {
        Object.assign(run, values);
        if (lines) run.lines = thinned(run.lines.concat(lines));
        const step = run.lines.findLast(line => "loss" in line)?.step;
        facts.textContent = run.status === "running" && step ? `step ${step} of ${run.steps}` : STATUS[run.status];
        show(run);
      }
      over = true;
    } catch (failure) {
      facts.textContent = "not connected: " + failure.message;
      await pause();
    }
  }
}});

/** Every evaluation, and at most as many steps as a chart can show; of more, every other. */
function thinned(lines) {
  return lines.length < 6000 ? lines : lines.filter((line, i) => "eval_loss" in line || i % 2 === 0 || i === lines.length - 1);
}
