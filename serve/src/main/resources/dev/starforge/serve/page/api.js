"use strict";
// How the page asks its server: with the key where it needs one, and streams of server-sent events.

const api = {
  /** Asks, and once more with a key where one is missing or wrong. */
  async ask(path, {body, signal} = {}) {
    for (;;) {
      const key = sessionStorage.getItem("key"), headers = {};
      if (key) headers.Authorization = "Bearer " + key;
      if (body) headers["Content-Type"] = "application/json";
      const response = await fetch(path, {method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body)});
      if (response.ok) return response;
      if (response.status === 401) {
        sessionStorage.setItem("key", await askForKey(key !== null));
        continue;
      }
      const said = await response.json().catch(() => ({}));
      throw new Error(said.error?.message || `${path}: status ${response.status}`);
    }
  },

  async get(path) {
    return (await api.ask(path)).json();
  },

  /** The data of server-sent events, parsed, up to [DONE]; one that is an error is thrown. */
  async *events(path, options) {
    const reader = (await api.ask(path, options)).body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      held += part.value;
      const events = held.split("\n\n");
      held = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return;
        const parsed = JSON.parse(data);
        if (parsed.error) throw new Error(parsed.error.message);
        yield parsed;
      }
    }
    throw new Error("the connection broke off");
  },
};

let asking = null;

/** One dialog, however many requests wait for the key. */
function askForKey(wasWrong) {
  asking ??= new Promise(resolve => {
    const key = el("input", {type: "password", id: "key", required: true, autocomplete: "off"});
    const form = el("form", {method: "dialog"}, el("h2", {}, "An API key is needed here"),
      el("p.soft", {}, wasWrong ? "That key was not right." : "One of those in the server's key file. It stays in this tab."),
      el("div", {}, el("label.label", {htmlFor: "key"}, "API key"), key), el("div.actions", {}, el("button.main", {type: "submit"}, "Use it")));
    const dialog = el("dialog", {}, form);
    dialog.oncancel = event => event.preventDefault();
    dialog.onclose = () => {
      dialog.remove();
      asking = null;
      resolve(key.value);
    };
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
