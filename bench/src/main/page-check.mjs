// Drives the page in Chromium; see PageCheck.java.

import {spawn} from "node:child_process";
import {existsSync, readFileSync, readdirSync, rmSync, writeFileSync} from "node:fs";
import {once} from "node:events";
import assert from "node:assert/strict";
import {chromium} from "playwright-core";

const [work, shots] = process.argv.slice(2);
const LOOKS = [["light", "desktop"], ["dark", "desktop"], ["light", "phone"], ["dark", "phone"]];
const SIZES = {desktop: {width: 1280, height: 860}, phone: {width: 390, height: 844}};
const MODEL = "golden/models/starcoder2";
const started = [];
const began = Date.now();

/** Starts the program; what it said until a pattern came is in the match. */
async function start(arguments_, pattern) {
  const child = spawn("./starforge", arguments_, {stdio: ["ignore", "pipe", "pipe"]});
  started.push(child);
  let said = "";
  child.ended = once(child, "exit");
  const found = new Promise((resolve, reject) => {
    const hear = part => {
      said += part;
      const match = said.match(pattern);
      if (match) resolve(match);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.ended.then(() => reject(new Error(`starforge ${arguments_.join(" ")} ended:\n${said}`)));
  });
  found.catch(() => {});
  return {child, match: await found};
}

const serve = (...more) => start(["serve", MODEL, "--port", "0", ...more], /serving \S+ at (\S+)/);

/** A page that fails the check when it does what no page of ours may. */
async function open(browser, url, scheme, size) {
  const context = await browser.newContext({colorScheme: scheme, viewport: SIZES[size], deviceScaleFactor: size === "phone" ? 2 : 1});
  const page = await context.newPage();
  page.wrong = [];
  page.on("console", message => ["error", "warning"].includes(message.type()) && page.wrong.push(message.text()));
  page.on("pageerror", failure => page.wrong.push(String(failure)));
  page.on("request", request => new URL(request.url()).origin !== new URL(url).origin && page.wrong.push("asked " + request.url()));
  page.setDefaultTimeout(60000);
  await page.goto(url);
  return page;
}

/** What a reader would stumble over. */
function faults() {
  const found = [];
  const shown = each => each.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && each.getClientRects().length;
  for (const each of document.querySelectorAll("input, select, textarea, button")) {
    const name = each.getAttribute("aria-label") || each.labels?.[0]?.textContent || each.textContent;
    if (!name.trim()) found.push("no name: " + each.outerHTML);
  }
  const ids = [...document.querySelectorAll("[id]")].map(each => each.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach(id => found.push("twice: #" + id));
  if (document.scrollingElement.scrollWidth > innerWidth) found.push(`wider than the window: ${document.scrollingElement.scrollWidth} of ${innerWidth}`);
  const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const over = (colour, below) => {
    pen.fillStyle = `rgb(${below})`;
    pen.fillRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const ground = each => over(getComputedStyle(each).backgroundColor, each.parentElement ? ground(each.parentElement) : [255, 255, 255]);
  const light = colour => colour.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  for (const each of document.querySelectorAll("body *")) {
    const text = [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !shown(each) || each.closest(":disabled, label:has(:disabled), svg, script")) continue;
    const below = ground(each), ink = over(getComputedStyle(each).color, below);
    const [high, low] = [light(ink), light(below)].sort((a, b) => b - a), contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(1)}: ${each.outerHTML.slice(0, 120)}`);
  }
  return found;
}

async function check(page, name) {
  await page.screenshot({path: `${shots}/${name}.png`, fullPage: true});
  assert.deepEqual(await page.evaluate(faults), [], name);
  assert.deepEqual(page.wrong, [], name);
}

const answer = (page, number = 0) => page.locator(".answer:visible").nth(number);
const written = async (page, number) => (await answer(page, number).locator(".token").allTextContents()).join("");

/** Runs what the form says, to its end; the text of the first answer. */
async function run(page) {
  await page.locator("form.ask:visible button.main").click();
  await page.waitForFunction(() => !document.querySelector(".running") && [...document.querySelectorAll(".answer")]
    .filter(each => each.checkVisibility()).every(each => each.querySelector(".stats").textContent));
  return written(page, 0);
}

async function tryIt(browser, url) {
  const page = await open(browser, url, "light", "desktop");
  await page.locator(".output").waitFor();
  await check(page, "try-empty");
  // complete, from the keyboard
  await page.getByLabel("Prompt").fill("def step_1(value, limit=7):\n");
  await page.getByLabel("Prompt").press("Control+Enter");
  await page.waitForFunction(() => document.querySelector(".stats").textContent);
  assert.match(await page.locator(".stats").textContent(), /\d+ tokens.*tokens\/s.*ended at the token limit, or in a repetition/);
  const base = await written(page, 0);
  assert.ok(base.length > 10);
  // the chances of a token, by pointer and by key
  await page.locator(".token").nth(3).hover();
  assert.match(await page.locator(".tip").textContent(), /sampled with probability \d+(\.\d)? %/);
  await page.screenshot({path: `${shots}/try-token.png`});
  await page.locator(".output").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator(".token.active").count(), 1);
  // an adapter
  await page.getByLabel("Model").first().selectOption("tuned");
  assert.notEqual(await run(page), base);
  // a gap
  await page.getByText("Fill in the middle").click();
  await page.getByLabel("Prefix").fill("def step_1(value):\n    ");
  await page.getByLabel("Suffix").fill("\n    return value\n");
  assert.ok((await run(page)).length);
  assert.ok((await page.locator(".output").textContent()).endsWith("\n    return value\n"));
  // a chat of two turns
  await page.getByText("Chat", {exact: true}).click();
  for (const message of ["Hello", "And again"]) {
    await page.getByLabel("Message").fill(message);
    await run(page);
  }
  assert.equal(await page.locator(".turn").count(), 4);
  await check(page, "chat-light-desktop");
  // stop, at the first token
  await page.getByText("Complete", {exact: true}).click();
  await page.evaluate(() => new MutationObserver((_, watch) => {
    if (document.querySelector(".token")) {
      watch.disconnect();
      dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
    }
  }).observe(document.querySelector(".output"), {childList: true, subtree: true}));
  await page.getByText("Sampling").click();
  await page.getByLabel("Tokens", {exact: true}).fill("150");
  await run(page);
  assert.match(await page.locator(".stats").textContent(), /stopped by you/);
  assert.ok(await page.locator(".token").count() < 150);
  // what is wrong is said
  await page.getByLabel("Tokens", {exact: true}).fill("99999");
  await page.locator("button.main").click();
  await page.locator(".wrong").waitFor();
  page.wrong = page.wrong.filter(text => !text.includes("400 (Bad Request)"));
  await check(page, "try-error");
  await page.context().close();
}

/** Tab goes through what can be used, in order, and one sees where it is. */
async function focusOrder(browser, url) {
  const page = await open(browser, url, "light", "desktop");
  await page.locator(".output").waitFor();
  const places = [];
  for (;;) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const each = document.activeElement, marked = each.closest(".segments label") || each;
      return {name: each.tagName, outlined: getComputedStyle(marked).outlineStyle !== "none", place: each.closest("header, form, .answer")?.tagName};
    });
    if (at.name === "BODY") break;
    assert.ok(at.outlined, `no outline on ${at.name}`);
    places.push(at.place);
  }
  assert.ok(places.length >= 10, places.join());
  assert.deepEqual(places.filter((place, i) => place !== places[i - 1]), ["HEADER", "FORM", "SECTION"]);
  await page.context().close();
}

async function compareThem(page, scheme, size) {
  await page.goto(page.url().replace(/#.*/, "") + "#compare");
  await page.locator(".compare .output").first().waitFor();
  await page.locator(".compare").getByLabel("Prompt").fill("def step_3(value, limit=21):\n");
  const left = await run(page), right = await written(page, 1);
  assert.notEqual(left, right, "base and tuned write the same");
  assert.match(await page.locator("form.ask:visible [role=status]").textContent(), /Identical up to token \d+|Different from the first token/);
  assert.equal(await page.locator(".parting:visible").count(), 2);
  await check(page, `compare-${scheme}-${size}`);
}

async function looks(browser, url) {
  for (const [scheme, size] of LOOKS) {
    const page = await open(browser, url, scheme, size);
    await page.locator(".output").waitFor();
    await page.getByLabel("Prompt").fill("def step_2(value, limit=14):\n    ");
    await run(page);
    await check(page, `try-${scheme}-${size}`);
    await compareThem(page, scheme, size);
    await page.context().close();
  }
  // the button wins over the system, and is remembered
  const page = await open(browser, url, "light", "desktop");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await ground();
  await page.getByLabel("Light or dark").click();
  const after = await ground();
  assert.notEqual(after, before);
  await page.reload();
  await page.locator(".output").waitFor();
  assert.equal(await ground(), after);
  await page.context().close();
}

async function withKey(browser) {
  writeFileSync(`${work}/keys`, "sk-page-check\n");
  const {match: [, url]} = await serve("--api-key-file", `${work}/keys`);
  const page = await open(browser, url, "light", "desktop");
  for (const key of ["wrong", "sk-page-check"]) {
    await page.getByLabel("API key").fill(key);
    if (key === "wrong") await page.screenshot({path: `${shots}/key.png`});
    await page.getByText("Use it").click();
    if (key === "wrong") await page.getByText("Invalid API key.").waitFor();
  }
  await page.locator(".output").waitFor();
  assert.ok((await run(page)).length);
  assert.ok(page.wrong.every(text => text.includes("401 (Unauthorized)")), page.wrong.join("\n"));
  await page.context().close();
}

/** Watches a run from its first step to its end. */
async function watch(browser) {
  const {child, match: [, url]} = await start(["train", "--ui", "0", "--dataset", `${work}/data`, "--out", `${work}/run`,
    ...["model.pretrained_model=" + MODEL, "model.context_window=192", "training.max_steps=100", "training.eval_steps=20", "optimization.batch_size=4",
      "optimization.gradient_accumulation_steps=1", "optimization.learning_rate=0.01", "training.save_steps=0"].flatMap(setting => ["--set", setting])], /live at (\S+)/);
  const pages = [];
  for (const [scheme, size] of LOOKS) pages.push(await open(browser, url, scheme, size));
  await pages[0].getByText(/Step \d+ of 100/).waitFor();
  const step = async () => Number((await pages[0].getByText(/Step \d+ of 100/).textContent()).match(/Step (\d+)/)[1]);
  const first = await step();
  await pages[0].waitForFunction(() => document.querySelectorAll(".chart polyline").length > 4);
  await pages[0].screenshot({path: `${shots}/run-live.png`, fullPage: true});
  assert.ok(await step() > first, "the page stands still");
  const [code] = await child.ended;
  assert.equal(code, 0);
  for (const [i, page] of pages.entries()) {
    await page.locator(".status", {hasText: "finished"}).waitFor();
    assert.match(await page.locator(".figure").first().textContent(), /Validation loss\d\.\d+ → \d\.\d+first → best/);
    assert.ok(await page.getByText("after training").count());
    await check(page, `run-${LOOKS[i].join("-")}`);
    await page.context().close();
  }
}

async function reports(browser) {
  const {child} = await start(["eval", "--config", `${work}/run/config.yaml`, "--adapter", `${work}/run`, "--samples", "4", "--report", `${work}/eval.html`], /perplexity/);
  await child.ended;
  for (const [name, file] of [["dataset", "data/report.html"], ["train", "run/report.html"], ["eval", "eval.html"]]) {
    for (const [scheme, size] of LOOKS) {
      const page = await open(browser, `file://${work}/${file}`, scheme, size);
      await page.locator(".figure").first().waitFor();
      await check(page, `report-${name}-${scheme}-${size}`);
      await page.context().close();
    }
  }
}

/** A worker of a pool is killed and restarts while the page is open. */
async function watchPool(browser) {
  rmSync(`${work}/pool`, {recursive: true, force: true});
  const micro = `${process.cwd()}/golden/gguf/micro-Q8_0.gguf`;
  const model = name => `  - {name: ${name}, path: ${micro}, device: cpu, autostart: ${name !== "spare"}}`;
  writeFileSync(`${work}/pool.yaml`, ["pool: {id: lab, state: pool, listen: '127.0.0.1:0'}", "restart: {backoff_s: 15}", "models:", ...["coder", "helper", "spare"].map(model)].join("\n"));
  const {child, match: [, url]} = await start(["pool", "--config", `${work}/pool.yaml`], /pool lab at (\S+)/);
  const pages = [];
  for (const [scheme, size] of LOOKS) pages.push(await open(browser, url, scheme, size));
  const [page] = pages;
  const pill = (name, status) => page.locator(".worker", {hasText: name}).locator(".pill", {hasText: status});
  for (const name of ["coder", "helper"]) await pill(name, "ready").waitFor();
  assert.match(await page.locator(".title").textContent(), /Pool lab.*Started on demand: spare/);
  const post = body => fetch(url + "/v1/completions", {method: "POST", body: JSON.stringify({model: "helper", prompt: "def step", max_tokens: 100, ...body})});
  const asking = [...Array(12).keys()].map(async i => (await post({seed: i, temperature: 1, stream: true})).text());
  await page.locator(".figure .big", {hasText: /^[1-9]/}).first().waitFor();
  const victim = readdirSync(`${work}/pool/workers`).map(file => JSON.parse(readFileSync(`${work}/pool/workers/${file}`))).find(entry => entry.model === "coder");
  process.kill(victim.pid, "SIGKILL");
  for (const each of pages) await each.locator(".pill.failed").waitFor();
  assert.match(await page.locator(".worker", {hasText: "coder"}).textContent(), /137: out of memory.*starts again in \d/);
  await page.locator(".happened li", {hasText: "exited"}).waitFor();
  for (const [i, each] of pages.entries()) {
    await check(each, `pool-failed-${LOOKS[i].join("-")}`);
  }
  await Promise.all(asking);
  await pill("coder", "ready").waitFor();
  assert.match(await page.locator(".worker", {hasText: "coder"}).textContent(), /restarts1.*Last time: 137/);
  await page.locator(".happened li", {hasText: "restarting"}).waitFor();
  for (const [i, each] of pages.entries()) {
    await check(each, `pool-${LOOKS[i].join("-")}`);
    if (i) await each.context().close();
  }
  // the first request for a model starts it
  await page.getByText("Try", {exact: true}).click();
  await page.getByLabel("Model").first().selectOption("spare");
  assert.ok((await run(page)).length);
  await page.getByText("Pool", {exact: true}).click();
  await pill("spare", "ready").waitFor();
  await page.context().close();
  child.kill();
  assert.deepEqual(await child.ended, [0, null]);
}

const path = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
const browser = await chromium.launch({executablePath: path, args: ["--no-sandbox", "--disable-gpu"]});
try {
  const timed = async (name, work) => {
    const from = Date.now();
    const made = await work;
    console.log(`page-check: ${name}, ${((Date.now() - from) / 1000).toFixed(1)} s`);
    return made;
  };
  await timed("a pool whose worker is killed", watchPool(browser));
  await timed("a run while it trains", watch(browser));
  await timed("reports", reports(browser));
  writeFileSync(`${work}/chat.jinja`, "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:");
  const {match: [, url]} = await serve("--adapter", `tuned=${work}/run/best`, "--chat-template", `${work}/chat.jinja`);
  await timed("complete, gap, chat, adapter, stop", tryIt(browser, url));
  await timed("focus", focusOrder(browser, url));
  await timed("light and dark, desktop and phone", looks(browser, url));
  await timed("API key", withKey(browser));
  console.log(`page-check: passed in ${Math.round((Date.now() - began) / 1000)} s; pictures are in ${shots}`);
} finally {
  await browser.close();
  started.forEach(child => child.kill());
}
