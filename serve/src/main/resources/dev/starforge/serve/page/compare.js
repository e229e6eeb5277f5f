"use strict";
// The same request to two models, side by side: base and tuned.

const NAMES = ["Model A", "Model B"];

views.push({name: "compare", title: "Compare", open: async root => {
  const {capabilities, models} = await serving;
  if (models.length < 2) {
    root.append(el("div.grid", {}, card("w12", "Nothing to compare yet", el("p", {}, "A comparison needs two models. Serve a base model with an adapter:"),
      ...commands({serve: "starforge serve BASE --adapter tuned=RUN/best"}))));
    return;
  }
  const choices = NAMES.map((name, i) => modelChoice(models, i, name));
  const answers = choices.map((choice, i) => new Answer(NAMES[i], choice));
  const verdict = el("p.soft.small", {role: "status"});
  const ask = new Ask(capabilities, models[0].sample, [], async () => {
    ask.busy(true);
    verdict.textContent = "";
    const request = ask.request();
    const whole = await Promise.all(answers.map((answer, i) => answer.run(request, choices[i].value)));
    ask.busy(false);
    if (whole.every(Boolean)) verdict.textContent = compared(...answers);
  }, () => answers.forEach(answer => answer.stop()));
  ask.modes.addEventListener("change", () => answers.forEach(answer => answer.clear()));
  ask.form.append(verdict);
  root.append(el("div.grid", {}, ask.form, ...answers.map(answer => el("div.said.half", {}, answer.card))));
}});

function compared(left, right) {
  const at = [left.partFrom(right), right.partFrom(left)].filter(place => place >= 0);
  if (!at.length) return "Identical output.";
  return Math.min(...at) ? `Identical up to token ${Math.min(...at)}; the mark shows the first difference.` : "Different from the first token.";
}
