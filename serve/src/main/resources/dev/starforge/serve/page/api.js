"use strict";
// Requests to the server, with its API key, and streams of server-sent events.

const api = {
  /** Sends a request; asks for a key and retries if it is missing or invalid. */
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

  /** The parsed data of server-sent events up to [DONE]; throws error events. */
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

/** One dialog for all requests that wait for the key. */
function askForKey(wasWrong) {
  asking ??= new Promise(resolve => {
    const key = el("input", {type: "password", id: "key", required: true, autocomplete: "off"});
    const form = el("form", {method: "dialog"}, el("h2", {}, "API key required"),
      el("p.soft", {}, wasWrong ? "Invalid API key." : "Enter a key from the server's key file. It is kept in this tab only."),
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
