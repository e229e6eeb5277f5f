"use strict";
// A completion, token by token, with probabilities, latencies and the finish reason.

const UNSURE = 0.5;
const visible = text => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";
const percent = chance => (100 * chance).toFixed(chance < 0.0995 ? 1 : 0) + " %";

/** JavaScript objects list numeric keys first. */
const likeliest = top => Object.entries(top).sort((a, b) => b[1] - a[1]);

/** Tokens of a chunk as {text, logprob, top: [[text, logprob]]}, of completions and of chats. */
function tokensOf(choice) {
  const text = choice.text ?? choice.delta?.content ?? "", {logprobs} = choice;
  const tokens = logprobs?.content
    ? logprobs.content.map(token => ({text: token.token, logprob: token.logprob, top: token.top_logprobs.map(each => [each.token, each.logprob])}))
    : (logprobs?.tokens || []).map((token, i) => ({text: token, logprob: logprobs.token_logprobs[i], top: likeliest(logprobs.top_logprobs[i])}));
  // a character of several tokens is decoded with the last of them
  return tokens.length > 1 && tokens.map(token => token.text).join("") === text ? tokens : text ? [{...tokens.at(-1), text}] : [];
}

class Answer {
  /** @param label title of the card; head: elements beside it */
  constructor(label, head) {
    this.output = el("pre.output", {tabIndex: 0, role: "group", "aria-label": label + ". Left and right go from token to token.", "data-empty": "The completion appears here."});
    this.stats = el("div.stats", {role: "status"});
    this.tip = el("div.tip", {hidden: true});
    this.card = el("section.card.answer", {"aria-label": label}, el("div.label", {}, el("h2", {}, label), head), this.output, this.stats, this.tip);
    this.output.onmouseover = event => event.target.token && this.point(event.target);
    this.output.onmouseleave = () => this.point(null);
    this.output.onblur = () => this.point(null);
    this.output.onkeydown = event => this.walk(event);
    this.output.onscroll = () => this.tip.hidden = true;
    this.clear();
  }

  clear() {
    this.messages = [];
    this.tokens = [];
    this.output.replaceChildren();
    this.stats.replaceChildren();
  }

  stop() {
    this.abort?.abort();
  }

  /** Sends a request and renders the response; returns false if it was stopped or failed. */
  async run(request, model) {
    this.abort = new AbortController();
    this.tokens = [];
    this.point(null);
    this.stats.replaceChildren();
    const into = this.begin(request), body = {...request.body, model, stream: true, stream_options: {include_usage: true}};
    if (request.message) body.messages = this.messages;
    this.card.classList.add("running");
    const times = {asked: performance.now()};
    let why = "", used = null;
    try {
      for await (const event of api.events(request.path, {body, signal: this.abort.signal})) {
        used = event.usage ?? used;
        const [choice] = event.choices;
        why = choice?.finish_reason || why;
        if (choice) tokensOf(choice).forEach(token => this.add(into, token, times));
      }
    } catch (failure) {
      why = failure.name === "AbortError" ? "stopped" : failure;
    }
    this.card.classList.remove("running");
    // a message without a response is removed, so that roles alternate
    if (request.message && why instanceof Error && !this.tokens.length) this.messages.pop();
    else if (request.message) this.messages.push({role: "assistant", content: this.text()});
    this.tell(times, why, used);
    return typeof why === "string" && why !== "stopped";
  }

  /** The context of the completion: the prompt, prefix and suffix, or earlier messages. */
  begin({message, before = "", after = ""}) {
    const into = el("span");
    if (message) {
      this.messages.push({role: "user", content: message});
      this.output.append(el("span.turn", {}, el("span.who", {}, "You"), message), el("span.turn", {}, el("span.who", {}, "Model"), into));
    } else {
      this.output.replaceChildren(el("span.soft", {}, before), into, el("span.soft", {}, after));
    }
    this.output.scrollTop = this.output.scrollHeight;
    return into;
  }

  add(into, token, times) {
    times.last = performance.now();
    times.first ??= times.last;
    const span = el("span.token", {}, token.text);
    span.token = token;
    if (Math.exp(token.logprob) < UNSURE) span.classList.add("unsure");
    const atEnd = this.output.scrollHeight - this.output.scrollTop - this.output.clientHeight < 40;
    into.append(span);
    this.tokens.push(span);
    if (atEnd) this.output.scrollTop = this.output.scrollHeight;
  }

  text() {
    return this.tokens.map(span => span.token.text).join("");
  }

  tell({asked, first, last}, why, used) {
    const number = used?.completion_tokens ?? this.tokens.length, parts = [];
    if (number) parts.push(el("span", {}, el("b", {}, short(number)), number === 1 ? " token" : " tokens"));
    if (number > 1 && last > first) parts.push(el("span", {}, el("b", {}, short((number - 1) / (last - first) * 1000)), " tokens/s"));
    if (first) parts.push(el("span", {}, `first after ${Math.round(first - asked)} ms`));
    const reasons = {length: "ended at the token limit, or in a repetition", stop: "ended by itself", stopped: "stopped by you"};
    parts.push(why instanceof Error ? el("span.wrong", {role: "alert"}, why.message) : el("span", {}, reasons[why] || why));
    this.stats.replaceChildren(...parts);
  }

  /** Marks the first token that differs from another completion; returns the length of the common prefix, or -1 if one is a prefix of the other. */
  partFrom(other) {
    const at = this.tokens.findIndex((span, i) => span.token.text !== other.tokens[i]?.token.text);
    this.tokens[at]?.classList.add("parting");
    return at;
  }

  walk(event) {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step || !this.tokens.length) return;
    event.preventDefault();
    const at = this.tokens.indexOf(this.active) + step;
    this.point(this.tokens[Math.max(0, Math.min(this.tokens.length - 1, at))]);
    this.active.scrollIntoView({block: "nearest"});
  }

  /** Shows the top log probabilities of a token. */
  point(span) {
    this.active?.classList.remove("active");
    this.active = span;
    this.tip.hidden = !span || span.token.logprob === undefined;
    if (this.tip.hidden) return;
    span.classList.add("active");
    const {text, logprob, top} = span.token;
    const rows = top.some(([other]) => other === text) ? top : [[text, logprob], ...top];
    this.tip.replaceChildren(el("div.soft", {}, `sampled with probability ${percent(Math.exp(logprob))}`), ...rows.map(([other, each]) => {
      const fill = el("div.fill");
      fill.style.width = 100 * Math.exp(each) + "%";
      return el("div.chance" + (other === text ? ".chosen" : ""), {}, el("span", {}, visible(other)), el("div.track", {}, fill), el("span", {}, percent(Math.exp(each))));
    }));
    const box = this.card.getBoundingClientRect(), at = span.getClientRects()[0];
    this.tip.style.left = Math.max(8, Math.min(at.left - box.left, box.width - this.tip.offsetWidth - 8)) + "px";
    this.tip.style.top = at.bottom - box.top + 6 + "px";
  }
}
