"use strict";
// What the reports and the page share: elements, numbers for people, figures, charts, light and dark.

/** An element: el("div.card.w6", {title: "x"}, "text", child). Text is never markup. */
function el(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && !key.startsWith("aria")) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** 950, 3,400, 34 k, 1.25 M, 20 M. */
function short(number) {
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (Math.abs(number) >= size * (unit === " k" ? 10 : 1)) return String(+(number / size).toPrecision(3)) + unit;
  }
  return Math.round(number).toLocaleString("en");
}

function bytes(number) {
  for (const [size, unit] of [[1e12, " TB"], [1e9, " GB"], [1e6, " MB"], [1e3, " kB"]]) {
    if (number >= size) return String(+(number / size).toPrecision(3)) + unit;
  }
  return number + " B";
}

function duration(seconds) {
  if (!(seconds >= 0)) return "—";
  if (seconds < 10) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  if (whole < 60) return whole + " s";
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

/** 3.052, 0.00031, 152: four significant digits. */
function figure(value) {
  return Number.isFinite(value) ? (Math.abs(value) >= 1e4 ? short(value) : String(+value.toPrecision(4))) : "—";
}

function count(number, one, many = one + "s") {
  return `${short(number)} ${number === 1 ? one : many}`;
}

const day = seconds => new Date(seconds * 1000).toISOString().slice(0, 10);

/** The button that goes from light to dark and back; what was chosen stays, where the browser keeps anything. */
function themeButton() {
  const root = document.documentElement;
  try {
    const kept = localStorage.getItem("theme");
    if (kept) root.dataset.theme = kept;
  } catch { /* a file that may keep nothing */ }
  const button = el("button.icon", {type: "button", title: "Light or dark", "aria-label": "Light or dark"}, "◐");
  button.onclick = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch { /* the same */ }
  };
  return button;
}

function heading(title, sub) {
  document.title = title;
  return el("div.title", {}, el("div", {}, el("h1", {}, title), el("div.soft", {}, sub)),
    ...document.getElementById("top") ? [] : [themeButton()]); // the page has it in its bar
}

/** A number that matters, with what it is and one line more. */
function figureCard(label, value, note, colour) {
  const name = el("div.soft.small", {});
  if (colour !== undefined) name.append(el("span.dot" + (colour && "." + colour)));
  name.append(label);
  return el("div.card.figure.w3", {}, name, el("div.big", {}, value), el("div.soft.small", {}, note));
}

function card(width, title, ...children) {
  return el("section.card." + width, {}, el("h2", {}, title), ...children);
}

function table(head, rows, kind = "") {
  const made = el("table" + (kind && "." + kind));
  if (head.length) made.append(el("tr", {}, ...head.map(text => el("th", {scope: "col"}, text))));
  made.append(...rows.map(row => el("tr", {}, ...row.map(cell => el("td", {}, cell)))));
  return el("div.scroll", {}, made);
}

function bars(counts, colour = "") {
  const rows = Object.entries(counts).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return rows.map(([name, number]) => {
    const fill = el("div.fill" + (colour && "." + colour));
    fill.style.width = 100 * number / rows[0][1] + "%";
    return el("div.bar", {}, el("div", {}, name.replaceAll("_", " ")), el("div.track", {}, fill), el("div", {}, short(number)));
  });
}

/** Commands to go on with, each with a button that copies it. */
function commands(named) {
  return Object.entries(named).map(([name, command]) => {
    const copy = el("button", {type: "button", "aria-label": "Copy: " + name}, "Copy");
    copy.onclick = async () => {
      await navigator.clipboard.writeText(command);
      copy.textContent = "Copied";
      setTimeout(() => copy.textContent = "Copy", 1200);
    };
    return el("div.command", {}, el("span.name", {}, name), el("code", {}, command), copy);
  });
}

/** Round numbers in a range, about as many as asked. */
function ticks(from, to, wanted) {
  const rough = (to - from) / wanted, power = 10 ** Math.floor(Math.log10(rough)), part = rough / power;
  const step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
  const found = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; i++) found.push(+(i * step).toPrecision(12));
  return found;
}

function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A box that draws itself for the width it has. */
function drawing(draw) {
  const box = el("figure.chart");
  let width = 0;
  box.redraw = () => width && draw(box, width);
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now !== width) {
      width = now;
      box.redraw();
    }
  }).observe(box);
  return box;
}

const PLOT = {height: 190, top: 8, bottom: 24, right: 10};

function leftOf(labels) {
  return 12 + 6.6 * Math.max(...labels.map(label => label.length));
}

/**
 * Lines over steps. Curves are {name, kind, points}: kind "raw" is pale, "second" and "third" have colours of their own; the empty ones are left
 * out. chart.show(curves) draws anew; a chart with nothing to show is hidden. where(x) says which step that is.
 */
function lineChart(title, format = figure, where = step => "step " + step.toLocaleString("en")) {
  let curves = [];
  const section = card("w6", title);
  const legend = el("div.legend");
  const box = drawing((into, width) => drawLines(into, width, title, curves, format, where));
  section.append(legend, box);
  section.show = all => {
    curves = all.filter(curve => curve.points.length > 1 || curve.kind === "second" && curve.points.length);
    section.hidden = !curves.some(curve => curve.points.length > 1);
    const named = curves.filter(curve => curve.kind !== "raw");
    legend.hidden = named.length < 2;
    legend.replaceChildren(...named.map(curve =>
      el("span", {}, el("span.dot" + (curve.kind ? "." + curve.kind : "")), curve.name)));
    box.redraw();
  };
  section.show([]);
  return section;
}

function drawLines(box, width, title, curves, format, where) {
  if (!curves.length) return;
  const xs = curves.flatMap(curve => curve.points.map(point => point[0]));
  const ys = curves.flatMap(curve => curve.points.map(point => point[1]));
  const extent = list => list.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  let [left, right] = extent(xs), [low, high] = extent(ys);
  if (left === right) [left, right] = [left - 1, right + 1];
  if (low === high) [low, high] = [low - Math.abs(low) / 2 - 1e-9, high + Math.abs(high) / 2 + 1e-9];
  const margin = 0.06 * (high - low);
  [low, high] = [low >= 0 ? Math.max(0, low - margin) : low - margin, high + margin];
  const rules = ticks(low, high, 4), begin = leftOf(rules.map(format));
  const x = value => begin + (value - left) / (right - left) * (width - begin - PLOT.right);
  const y = value => PLOT.height - PLOT.bottom - (value - low) / (high - low) * (PLOT.height - PLOT.bottom - PLOT.top);
  const plot = svg("svg", {viewBox: `0 0 ${width} ${PLOT.height}`, height: PLOT.height, role: "img",
    "aria-label": `${title}: ` + curves.map(c => `${c.name} from ${format(c.points[0][1])} to ${format(c.points.at(-1)[1])}`).join(", ")});
  rules.forEach(value => plot.append(
    svg("line", {class: "rule", x1: begin, x2: width, y1: y(value), y2: y(value)}),
    svg("text", {x: begin - 8, y: y(value) + 4, "text-anchor": "end"}, format(value))));
  ticks(left, right, Math.max(2, Math.floor(width / 80))).filter(Number.isInteger).forEach(value =>
    plot.append(svg("text", {x: x(value), y: PLOT.height - 6, "text-anchor": "middle"}, short(value))));
  for (const {kind = "", points} of curves) {
    const path = points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
    plot.append(svg("polyline", {class: "line " + kind, points: path.join(" ")}));
    if (points.length < 25 && kind !== "raw") {
      points.forEach(([step, value]) => plot.append(svg("circle", {class: "point " + kind, r: 2.6, cx: x(step), cy: y(value)})));
    }
  }
  box.replaceChildren(plot);
  readout(box, plot, width, curves, x, format, where);
}

/** The values under the pointer. */
function readout(box, plot, width, curves, x, format, where) {
  const cursor = svg("line", {class: "cursor", y1: PLOT.top, y2: PLOT.height - PLOT.bottom, visibility: "hidden"});
  const read = el("div.read", {hidden: true});
  plot.append(cursor);
  box.append(read);
  plot.onpointermove = event => {
    const at = event.clientX - plot.getBoundingClientRect().left;
    const nearest = points => points.reduce((best, point) => Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at) ? point : best);
    const found = curves.map(curve => ({name: curve.name, point: nearest(curve.points)}));
    const middle = x(found[0].point[0]);
    cursor.setAttribute("x1", middle);
    cursor.setAttribute("x2", middle);
    cursor.setAttribute("visibility", "visible");
    read.replaceChildren(el("div.soft", {}, where(found[0].point[0])),
      ...found.map(each => el("div", {}, `${each.name} ${format(each.point[1])}`)));
    read.hidden = false;
    read.style.left = (middle < width / 2 ? middle + 10 : middle - 10 - read.offsetWidth) + "px";
  };
  plot.onpointerleave = () => {
    read.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
}

/** Stacked blocks: buckets of numbers, one for each name; label(i) says what a bucket is. */
function blockChart(title, names, buckets, label) {
  const kinds = ["", "second", "third"];
  return drawing((box, width) => {
    const most = ticks(0, Math.max(...buckets.map(bucket => bucket.reduce((a, b) => a + b))) * 1.05, 3);
    const top = most.at(-1) + (most[1] || 1), begin = leftOf(most.map(short));
    const step = (width - begin) / Math.max(buckets.length, 8);
    const y = value => PLOT.height - PLOT.bottom - value / top * (PLOT.height - PLOT.bottom - PLOT.top);
    const plot = svg("svg", {viewBox: `0 0 ${width} ${PLOT.height}`, height: PLOT.height, role: "img", "aria-label": title});
    most.forEach(value => plot.append(
      svg("line", {class: "rule", x1: begin, x2: width, y1: y(value), y2: y(value)}),
      svg("text", {x: begin - 8, y: y(value) + 4, "text-anchor": "end"}, short(value))));
    buckets.forEach((bucket, i) => bucket.reduce((below, value, k) => {
      if (value) {
        const block = svg("rect", {class: "block " + kinds[k], rx: 2, x: begin + step * (i + .12), width: step * .76,
          y: y(below + value), height: Math.max(1, y(below) - y(below + value))});
        block.append(svg("title", {}, `${label(i)}: ${count(value, "token")}, ${names[k]}`));
        plot.append(block);
      }
      return below + value;
    }, 0));
    [...new Set([0, buckets.length - 1])].forEach(i => plot.append(svg("text", {x: begin + (i + .5) * step, y: PLOT.height - 6,
      "text-anchor": i === 0 ? "start" : i > buckets.length / 2 ? "end" : "middle"}, label(i))));
    box.replaceChildren(plot);
  });
}
