// Client programs: each one runs and sends exactly the given text.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

import { asCurl, asJavaScript, asPython, asPythonWebsockets } from "../../../web_demo/protocol/snippets.js";

const URL_ = "ws://127.0.0.1:8000/v1/audio/speech/stream";
const TEXTS = [
  "Hello.",
  "\"double\", 'single', `back` and ''' triple \"\"\"",
  "$HOME $(id) `id` ${PATH} !! \\n \\' \\",
  "two\nlines\r\n\ttab \u0000 \u0007 \u007f",
  "日本語 😀 é \u2028 \u2029 \ufeff",
  "'; rm -rf / #",
  "--data @/etc/passwd",
  "@file",
  "lone \ud83d surrogate",
  "{braces} %s %(x)s {{}}",
];
const CONFIG = { voice: "it's", response_format: "pcm", stream_audio: true, word_timestamps: false, speed: 1.25, text_filters: ["markdown"], pronunciations: { SQL: "se'quel" }, seed: null };

/** Runs Python code that prints JSON about each snippet given to it as a JSON list on stdin. */
function python(code, input) {
  const run = spawnSync("python3", ["-c", code], { input: JSON.stringify(input), encoding: "utf8" });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout);
}

const LITERALS = `
import ast, json, sys
found = []
for source in json.load(sys.stdin):
    tree = ast.parse(source)
    compile(tree, "snippet", "exec")
    found.append([n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)])
print(json.dumps(found))
`;

test("python: every text compiles to a literal with exactly that text", () => {
  for (const write of [asPython, asPythonWebsockets]) {
    const found = python(LITERALS, TEXTS.map((text) => write(CONFIG, text, URL_)));
    TEXTS.forEach((text, i) => assert.ok(found[i].includes(text), `${write.name}: ${JSON.stringify(text)}`));
  }
});

const CONNECT = `
import ast, json, sys
found = []
for source in json.load(sys.stdin):
    call = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "connect")
    found.append([ast.literal_eval(call.args[0]), {k.arg: ast.literal_eval(k.value) for k in call.keywords}])
print(json.dumps(found))
`;

test("python: the settings are unchanged, without unset ones", () => {
  const { seed: _, ...set } = CONFIG;
  assert.deepEqual(python(CONNECT, [asPython(CONFIG, "x", URL_)]), [[URL_, set]]);
});

test("python and curl: a key is read from the environment", () => {
  for (const write of [asPython, asPythonWebsockets, asCurl]) {
    assert.ok(write(CONFIG, "x", URL_, { keyed: true }).includes("REALTIME_TTS_KEY"));
    assert.ok(!write(CONFIG, "x", URL_).includes("REALTIME_TTS_KEY"));
  }
  for (const write of [asPython, asPythonWebsockets]) {
    const names = python(LITERALS, [write(CONFIG, "x", URL_, { keyed: true }), write({ response_format: "opus" }, "x", URL_)]);
    assert.equal(names.length, 2); // they compile
    assert.ok(/^import os$/m.test(write(CONFIG, "x", URL_, { keyed: true })));
  }
});

/** What a snippet sends when its socket opens. */
function sentBy(source) {
  const sent = [];
  let socket;
  class WebSocket {
    constructor(url, protocols) {
      socket = this;
      sent.push({ url, protocols });
    }
    send(data) {
      sent.push(JSON.parse(data));
    }
    close() {
      sent.push("closed");
    }
  }
  runInNewContext(source, { WebSocket, console: { log() {} } });
  socket.onopen();
  socket.onmessage({ data: new ArrayBuffer(4) });
  socket.onmessage({ data: '{"type": "session.done"}' });
  return JSON.parse(JSON.stringify(sent));
}

test("javascript: it runs and sends exactly the text", () => {
  const { seed: _, ...set } = CONFIG;
  for (const text of TEXTS) {
    assert.deepEqual(sentBy(asJavaScript(CONFIG, text, URL_)), [
      { url: URL_, protocols: "realtime-tts.v1" },
      { type: "session.config", ...set },
      { type: "input.text", text },
      { type: "input.done" },
      "closed",
    ]);
  }
});

test("javascript with a key requests a token from the backend", () => {
  const source = asJavaScript(CONFIG, "x", URL_, { keyed: true });
  assert.match(source, /realtime-tts\.token\.\$\{token\}/);
  assert.doesNotThrow(() => new Function(`return async () => {${source}}`));
});

/** The arguments of the curl command. */
function argumentsOf(line) {
  const run = spawnSync("bash", ["--norc", "-c", `curl() { printf '%s\\0' "$@"; }\n${line}`], { encoding: "utf8", env: { REALTIME_TTS_KEY: "secret" } });
  assert.equal(run.status, 0, run.stderr);
  assert.equal(run.stderr, "");
  return run.stdout.split("\0").slice(0, -1);
}

test("curl: the shell passes exactly the text and runs nothing else", () => {
  for (const text of TEXTS) {
    const args = argumentsOf(asCurl(CONFIG, text, URL_, { model: "kokoro" }));
    const body = JSON.parse(args[args.indexOf("-d") + 1]);
    assert.equal(body.input, text);
    assert.deepEqual([body.model, body.voice, body.speed, "stream_audio" in body, "seed" in body], ["kokoro", "it's", 1.25, false, false]);
    assert.ok(args.includes("http://127.0.0.1:8000/v1/audio/speech"));
    assert.deepEqual(args.slice(-2), ["-o", "speech.pcm"]);
  }
});

test("curl: the address keeps its host and prefix, without the query", () => {
  const args = argumentsOf(asCurl({}, "x", "wss://voice.test/demo/v1/audio/speech/stream?x=1", { keyed: true }));
  assert.ok(args.includes("https://voice.test/demo/v1/audio/speech"));
  assert.ok(args.includes("Authorization: Bearer secret"));
});

test("curl: the selected model replaces the default one", () => {
  const args = argumentsOf(asCurl({ model: "kokoro@policy_c" }, "x", URL_, { model: "kokoro" }));
  assert.equal(JSON.parse(args[args.indexOf("-d") + 1]).model, "kokoro@policy_c");
});
