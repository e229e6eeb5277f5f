"use strict";
// The live state of a pool: devices, workers, reserved memory, requests in flight, and events since the page was opened.

const LOOK = 1000, KEPT = 300, EVENTS = 100;
const SERVES = ["READY", "BUSY"];

views.push({name: "pool", title: "Pool", open: async root => {
  const title = heading("Pool", ""), figures = el("div.grid"), devices = card("w6", "Devices"), workers = card("w12", "Workers");
  const requests = lineChart("Requests, the last five minutes", short, seconds => seconds ? `${-seconds} s ago` : "now");
  const happened = el("ol.happened", {role: "log", "aria-label": "Events", "data-empty": "No events since this page was opened."});
  root.append(title, figures, el("div.grid", {}, devices, requests, workers, card("w12", "Events", happened)));
  const counts = [];
  hear(event => {
    happened.prepend(eventLine(event));
    while (happened.children.length > EVENTS) happened.lastChild.remove();
  });
  for (;;) {
    try {
      const state = await api.get("/v2/state");
      counts.push([Math.round(performance.now() / 1000), state.requests]);
      if (counts.length > KEPT) counts.shift();
      title.querySelector("h1").textContent = document.title = "Pool " + state.pool_id;
      title.querySelector(".soft").textContent = onDemand(state);
      figures.replaceChildren(...poolFigures(state));
      devices.replaceChildren(devices.firstChild, ...state.devices.map(deviceBar),
        ...(state.deployment?.rejected ?? []).map(gpu => el("p.soft.small", {}, "Unused: " + gpu)));
      workers.replaceChildren(workers.firstChild, ...state.workers.length ? newestFirst(state.workers).map(workerRow) : [el("p.soft", {}, "None yet.")]);
      requests.show([{name: "requests", points: counts.map(([at, number]) => [at - counts.at(-1)[0], number])}]);
      facts.textContent = `${count(state.workers.filter(serves).length, "worker")} ready · ${count(state.requests, "request")} in flight`;
    } catch (failure) {
      facts.textContent = "not connected: " + failure.message;
    }
    await new Promise(resolve => setTimeout(resolve, LOOK));
  }
}});

/** Follows the events of the pool while the page is open. */
async function hear(tell) {
  for (;;) {
    try {
      for await (const event of api.events("/v2/events")) if (event.type !== "alive") tell(event);
    } catch { /* the bar says that there is no connection */ }
    await new Promise(resolve => setTimeout(resolve, LOOK));
  }
}

const serves = worker => SERVES.includes(worker.status);
const sum = (list, name) => list.reduce((all, each) => all + each[name], 0);

/** Ready workers first, stopped ones last. */
function newestFirst(workers) {
  const rank = worker => worker.status === "STOPPED" ? 1 : 0;
  return workers.toReversed().sort((a, b) => rank(a) - rank(b));
}

/** Configured models without a worker. */
function onDemand({models, workers}) {
  const waiting = models.map(model => model.name).filter(name => !workers.some(worker => worker.model_ref === name && worker.status !== "STOPPED"));
  return waiting.length ? "Started on demand: " + waiting.join(", ") : "";
}

function poolFigures({devices, workers, requests}) {
  const wanted = workers.filter(worker => worker.status !== "STOPPED"), failed = wanted.filter(worker => worker.status === "FAILED").length;
  return [figureCard("Requests in flight", short(requests), "through the pool"),
    figureCard("Workers ready", `${wanted.filter(serves).length} of ${wanted.length}`, failed ? `${failed} failed` : "none failed"),
    figureCard("Restarts", short(sum(workers, "restarts")), "of the workers below"),
    figureCard("Memory reserved", bytes(sum(devices, "allocated")), "of " + bytes(sum(devices, "total")))];
}

function deviceBar({id, name, total, allocated, free, workers}) {
  const fill = el("div.fill");
  fill.style.width = 100 * allocated / total + "%";
  return el("div.device", {}, el("div.ends", {}, el("b", {}, id), el("span.soft", {}, name)), el("div.track", {}, fill),
    el("div.ends.soft", {}, el("span", {}, `${bytes(allocated)} for ${count(workers.length, "worker")}`), el("span", {}, `${bytes(free)} free of ${bytes(total)}`)));
}

function workerRow(worker) {
  const {id, model_ref, adapters, device, uri, status, requests, memory_used, restarts, started_at} = worker;
  const trouble = workerTrouble(worker);
  return el("article.worker", {"aria-label": `Worker ${id}`},
    el("div", {}, el("span.pill." + status.toLowerCase(), {}, status.toLowerCase()),
      el("b", {}, model_ref || "not known yet"), ...adapters.map(name => el("span.soft.small", {}, " + " + name)),
      el("div.soft.small", {}, [id, device, uri.replace("http://", "")].filter(Boolean).join(" · "))),
    el("dl", {}, ...[["requests", short(requests)], ["memory", bytes(memory_used)], ["restarts", short(restarts)],
      ["running for", serves(worker) && started_at ? duration((Date.now() - Date.parse(started_at)) / 1000) : "—"]]
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    ...trouble ? [el("p.small" + (status === "FAILED" ? ".wrong" : ".soft"), {}, trouble)] : []);
}

/** The last exit, and the restart or advice. */
function workerTrouble({status, reason, last_exit, restart_in_s, advice}) {
  const how = reason || last_exit && "ended with " + last_exit;
  if (status === "STOPPED" || status !== "FAILED" && how) return how && "Last time: " + how;
  return status === "FAILED" ? how + (restart_in_s === undefined ? ". " + advice : `; starts again in ${duration(restart_in_s)}`) : "";
}

function eventLine({type, worker_id, detail, time}) {
  return el("li", {}, el("time.soft", {dateTime: time}, new Date(time).toLocaleTimeString("en-GB")), el("span.mono", {}, worker_id),
    el("span", {}, el("b", {}, type.replaceAll("_", " ")), " ", detail));
}
