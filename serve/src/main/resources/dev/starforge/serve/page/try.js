"use strict";
// One model, one request.

views.push({name: "try", title: "Try", open: async root => {
  const {capabilities, models} = await serving;
  if (!models.length) {
    root.append(el("div.grid", {}, card("w12", "No model yet", el("p", {}, "No model is being served; reload this page later."))));
    return;
  }
  const model = modelChoice(models, 0, "Model"), again = el("button", {type: "button"}, "Clear");
  const answer = new Answer("Answer", again);
  const ask = new Ask(capabilities, models[0].sample, [field("Model", model)], async () => {
    ask.busy(true);
    await answer.run(ask.request(), model.value);
    ask.busy(false);
  }, () => answer.stop());
  again.onclick = () => answer.clear();
  ask.modes.addEventListener("change", () => answer.clear());
  root.append(el("div.grid", {}, ask.form, el("div.said", {}, answer.card)));
}});
