// Asks a fake worker everything that OpenAI's own client can ask of it, through a proxy that writes both sides down.
// Started by ./dev peers openai-client.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import http from "node:http";
import readline from "node:readline";
import OpenAI from "openai";
import parsePrometheus from "parse-prometheus-text-format";

const [dev, recordFile, option] = process.argv.slice(2);
const key = "sk-recorded-key";
const reply = "Hello, world! This is a reply.";

const worker = spawn(dev, ["fake-worker", key], { stdio: ["pipe", "pipe", "inherit"] });
const lines = readline.createInterface({ input: worker.stdout })[Symbol.asyncIterator]();
const target = new URL((await lines.next()).value);

const exchanges = [];
let current = "";
const proxy = http.createServer((request, response) => {
  const name = current;
  const sent = [];
  request.on("data", (bytes) => sent.push(bytes));
  request.on("end", () => {
    const body = Buffer.concat(sent);
    const onward = http.request(
      { host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers },
      (answer) => {
        const got = [];
        response.writeHead(answer.statusCode, answer.headers);
        answer.on("data", (bytes) => {
          got.push(bytes);
          response.write(bytes);
        });
        answer.on("end", () => {
          response.end();
          const headers = [];
          for (let i = 0; i < request.rawHeaders.length; i += 2) {
            headers.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
          }
          const text = Buffer.concat(got).toString("utf8");
          exchanges.push({
            name,
            request: `${request.method} ${request.url} HTTP/1.1`,
            headers,
            body: body.toString("utf8"),
            status: answer.statusCode,
            type: answer.headers["content-type"],
            answer: text,
          });
        });
        answer.on("error", () => response.destroy());
      },
    );
    response.on("close", () => onward.destroy());
    onward.on("error", () => response.destroy());
    onward.end(body);
  });
});
await new Promise((listening) => proxy.listen(0, "127.0.0.1", listening));
const baseURL = `http://127.0.0.1:${proxy.address().port}/v1`;
const client = new OpenAI({ apiKey: key, baseURL, maxRetries: 0 });
let checks = 0;

async function check(name, work) {
  current = name;
  await work();
  checks++;
  console.log(`ok  ${name}`);
}

await check("models", async () => {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((model) => model.id), ["fake"]);
  assert.equal((await client.models.retrieve("fake")).owned_by, "starforge");
});
await check("completion", async () => {
  const answer = await client.completions.create({ model: "fake", prompt: "Say it", max_tokens: 64, temperature: 0 });
  assert.equal(answer.choices[0].text, reply);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});
await check("completion with a suffix", async () => {
  const answer = await client.completions.create({ model: "fake", prompt: "def f(", suffix: "): pass", max_tokens: 64, seed: 7, token_healing: false });
  assert.equal(answer.choices[0].text, reply);
});
await check("completion with everything", async () => {
  const answer = await client.completions.create({
    model: "fake", prompt: ["a", "b"], max_tokens: 5, n: 2, stop: ["zzz"], seed: 1, logprobs: 3, temperature: 0.7, top_p: 0.9,
    presence_penalty: 0.1, frequency_penalty: 0.2, user: "somebody",
  });
  assert.equal(answer.choices.length, 4);
  assert.equal(answer.choices[3].logprobs.tokens.length, 5);
  assert.equal(Object.keys(answer.choices[0].logprobs.top_logprobs[0]).length, 3);
  assert.equal(answer.choices[0].finish_reason, "length");
});
await check("completion with echo", async () => {
  const answer = await client.completions.create({ model: "fake", prompt: "Say: ", max_tokens: 64, echo: true, stop: "world" });
  assert.equal(answer.choices[0].text, "Say: Hello, ");
});
await check("completion from token ids", async () => {
  const answer = await client.completions.create({ model: "fake", prompt: [5, 6, 7], max_tokens: 2 });
  assert.equal(answer.usage.prompt_tokens, 3);
});
await check("stream of a completion", async () => {
  const stream = await client.completions.create({
    model: "fake", prompt: "Say it", max_tokens: 64, stream: true, stream_options: { include_usage: true },
  });
  let text = "";
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, reply);
  assert.ok(usage.completion_tokens > 5);
});
await check("chat", async () => {
  const answer = await client.chat.completions.create({
    model: "fake", messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "Say it" }],
    logprobs: true, top_logprobs: 2, max_completion_tokens: 64,
  });
  assert.equal(answer.choices[0].message.content, reply);
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.equal(answer.choices[0].logprobs.content[0].top_logprobs.length, 2);
});
await check("stream of a chat", async () => {
  const stream = await client.chat.completions.create({
    model: "fake", messages: [{ role: "user", content: [{ type: "text", text: "Say it" }] }], stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let reason = "";
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    reason = chunk.choices[0]?.finish_reason ?? reason;
  }
  assert.equal(text, reply);
  assert.equal(reason, "stop");
});
await check("embeddings", async () => {
  const coded = await client.embeddings.create({ model: "fake", input: ["a", "b c"] });
  assert.equal(coded.data.length, 2);
  assert.ok(Math.abs(coded.data[0].embedding[0] - 0.6) < 1e-6);
  const plain = await client.embeddings.create({ model: "fake", input: "a", encoding_format: "float" });
  assert.ok(Math.abs(plain.data[0].embedding[1] - 0.8) < 1e-6);
});
await check("errors", async () => {
  await assert.rejects(client.completions.create({ model: "gpt-9", prompt: "x" }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    return true;
  });
  await assert.rejects(client.completions.create({ model: "fake", prompt: "x", max_tokens: 4096 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, "context_length_exceeded");
    assert.equal(error.param, "max_tokens");
    return true;
  });
  await assert.rejects(client.chat.completions.create({ model: "fake", messages: [] }), OpenAI.BadRequestError);
  const stranger = new OpenAI({ apiKey: "wrong", baseURL, maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});
current = "a stream that is left";
const left = await client.completions.create({ model: "fake", prompt: "Say it", max_tokens: 64, stream: true });
for await (const chunk of left) {
  assert.ok(chunk.id);
  break;
}
await check("metrics", async () => {
  const answer = await fetch(new URL("/metrics", target), { headers: { authorization: `Bearer ${key}` } });
  const families = parsePrometheus(await answer.text());
  assert.equal(families.length, 17);
  const latency = families.find((family) => family.name === "vllm:e2e_request_latency_seconds");
  assert.equal(latency.type, "HISTOGRAM");
  assert.ok(Number(latency.metrics[0].buckets["+Inf"]) >= 11);
  const duration = families.find((family) => family.name === "worker_inference_duration_ms");
  assert.ok(Number(duration.metrics[0].count) >= 11 && Number(duration.metrics[0].sum) > 0);
});

proxy.close();
proxy.closeAllConnections();
worker.stdin.end();
if (option === "--record") {
  const kept = exchanges.filter((exchange) => exchange.name !== "a stream that is left");
  writeFileSync(recordFile, JSON.stringify(kept, null, 1) + "\n");
  console.log(`${kept.length} exchanges written to ${recordFile}`);
}
console.log(`${checks} of ${checks} right with openai ${(await import("openai/version")).VERSION}`);
