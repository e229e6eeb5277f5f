"use strict";
// The request form: a prompt, fill-in-the-middle or chat messages, with sampling parameters.

const MODES = [["complete", "Complete"], ["fim", "Fill in the middle", "infill", "This model has no fill-in-the-middle tokens."],
  ["chat", "Chat", "chat", "This model has no chat template; serve it with --chat-template FILE."]];
const NUMBERS = [["max_tokens", "Tokens", 64, 1, 100000, 1], ["temperature", "Temperature", 0, 0, 2, 0.1], ["top_p", "Top p", 1, 0.05, 1, 0.05], ["seed", "Seed", 1, 0, 2147483647, 1]];
let ids = 0;

function field(text, input) {
  input.id = "field" + ++ids;
  return el("div", {}, el("label.label", {htmlFor: input.id}, text), input);
}

const area = (text, value) => field(text, el("textarea", {value, spellcheck: false, autocapitalize: "off"}));

/** A form for a request, filled with a sample from the repository that the model was tuned on. onRun and onStop are its two buttons, and Ctrl-Enter and Escape. */
class Ask {
  constructor(capabilities, sample, above, onRun, onStop) {
    this.modes = el("fieldset.segments", {"aria-label": "Request type"}, ...MODES.map(([mode, title, needs, without], i) => {
      const missing = needs && !capabilities.includes(needs);
      const radio = el("input", {type: "radio", name: "mode" + ids, value: mode, checked: i === 0, disabled: missing, onchange: () => this.show()});
      return el("label", {title: missing ? without : ""}, radio, title);
    }));
    ids++;
    this.prompt = area("Prompt", sample?.prompt ?? "def fibonacci(n):\n    ");
    this.prefix = area("Prefix", sample?.prompt ?? "def fibonacci(n):\n    if n < 2:\n        return n\n    ");
    this.suffix = area("Suffix", sample?.suffix ?? "\n\nprint(fibonacci(10))\n");
    this.message = area("Message", "");
    this.numbers = NUMBERS.map(([name, title, value, min, max, step]) => field(title, el("input", {type: "number", name, value, min, max, step, required: true})));
    this.stop = field("Stop at", el("input", {type: "text", name: "stop", placeholder: "a string, such as def"}));
    this.runs = el("button.main", {type: "submit"}, "Run");
    this.stops = el("button", {type: "button", disabled: true, onclick: onStop}, "Stop");
    this.form = el("form.card.fields.ask", {"aria-label": "Request"}, this.modes, this.prompt, this.prefix, this.suffix, this.message, ...above,
      el("details", {}, el("summary", {}, "Sampling"), el("div.fields", {}, el("div.numbers", {}, ...this.numbers), this.stop)),
      el("div.actions", {}, this.runs, this.stops, el("span.soft.small.keys", {}, el("kbd", {}, "Ctrl"), " ", el("kbd", {}, "Enter"), " runs, ", el("kbd", {}, "Esc"), " stops")));
    this.form.onsubmit = event => {
      event.preventDefault();
      if (!this.runs.disabled) onRun();
    };
    this.form.onkeydown = event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    };
    addEventListener("keydown", event => event.key === "Escape" && !this.stops.disabled && onStop());
    this.show();
  }

  get mode() {
    return this.modes.querySelector(":checked").value;
  }

  show() {
    this.prompt.hidden = this.mode !== "complete";
    this.prefix.hidden = this.suffix.hidden = this.mode !== "fim";
    this.message.hidden = this.mode !== "chat";
    this.message.querySelector("textarea").required = this.mode === "chat";
  }

  busy(is) {
    this.runs.disabled = is;
    this.stops.disabled = !is;
  }

  /** {path, body} of the request, and {before, after} or {message} for display. */
  request() {
    const value = each => each.querySelector("input, textarea").value;
    const body = {stop_repetition: true}, stop = value(this.stop);
    for (const each of this.numbers) body[each.querySelector("input").name] = Number(value(each));
    if (stop) body.stop = [stop];
    if (this.mode === "chat") {
      const message = value(this.message);
      this.message.querySelector("textarea").value = "";
      return {path: "/v1/chat/completions", body: {...body, logprobs: true, top_logprobs: 5}, message};
    }
    const before = value(this.mode === "fim" ? this.prefix : this.prompt), after = this.mode === "fim" ? value(this.suffix) : "";
    return {path: "/v1/completions", body: {...body, prompt: before, suffix: after, logprobs: 5, token_healing: true}, before, after};
  }
}

/** Selects one of the served models or adapters. */
function modelChoice(models, chosen, label) {
  const select = el("select", {"aria-label": label}, ...models.map(({id, parent}) => el("option", {value: id}, parent ? `${id} (adapter)` : id)));
  select.value = models[Math.min(chosen, models.length - 1)].id;
  return select;
}

/** The capabilities of the server, once the model is loaded; the bar shows the progress. A pool's workers can differ and reject what they cannot do. */
async function served() {
  for (;;) {
    const health = await api.get("/health");
    if (health.pool_id) return {capabilities: MODES.map(([, , needs]) => needs), models: (await api.get("/v1/models")).data};
    if (health.status !== "loading") {
      facts.textContent = [health.model, health.quantization, health.device, `context ${short(health.context)}`].join(" · ");
      facts.title = facts.textContent;
      return {capabilities: health.capabilities, models: (await api.get("/v1/models")).data};
    }
    facts.textContent = `loading, ${health.progress} %`;
    await new Promise(resolve => setTimeout(resolve, 500));
  }
}

const serving = served();
