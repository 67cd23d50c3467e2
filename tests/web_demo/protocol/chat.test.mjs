// Chat completions: messages, and streams that are divided at any byte.

import assert from "node:assert/strict";
import { test } from "node:test";

import { AnswerReader, partsOf, requestOf, samplesOf } from "../../../web_demo/protocol/chat.js";

const PCM = Buffer.from(Int16Array.of(0, 32767, -32767).buffer).toString("base64");
const chunk = (delta) => `data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`;
const STREAM =
  chunk({ role: "assistant", content: "" }) +
  chunk({ content: "It ", audio: { id: "a", transcript: "It " } }) +
  chunk({ audio: { data: PCM } }) +
  chunk({ content: "is.", audio: { transcript: "is." } }) +
  chunk({ audio: { expires_at: 7 } }) +
  chunk({}) +
  `data: ${JSON.stringify({ choices: [], usage: {} })}\n\n` +
  "data: [DONE]\n\n";

test("the parts of a message are its text, then its files", () => {
  const files = [
    { type: "image/png", dataUrl: "data:image/png;base64,AA==" },
    { type: "audio/mpeg", dataUrl: "data:audio/mpeg;base64,AA==" },
  ];
  assert.deepEqual(partsOf("What is this?", files), [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url: files[0].dataUrl } },
    { type: "audio_url", audio_url: { url: files[1].dataUrl } },
  ]);
  assert.deepEqual(partsOf("  ", []), []);
});

test("a voice is sent only if one is selected", () => {
  assert.deepEqual(requestOf([], { model: "m", voice: "" }).audio, { format: "pcm16" });
  assert.deepEqual(requestOf([], { model: "m", voice: "v" }).audio, { format: "pcm16", voice: "v" });
});

test("PCM becomes samples from -1 to 1", () => {
  assert.deepEqual([...samplesOf(PCM)], [0, 1, -1]);
});

test("a stream gives the same pieces, however it is divided", () => {
  for (let size = 1; size < STREAM.length; size += 7) {
    const reader = new AnswerReader();
    const pieces = [];
    for (let at = 0; at < STREAM.length; at += size) pieces.push(...reader.push(STREAM.slice(at, at + size)));
    assert.equal(pieces.map(({ text }) => text ?? "").join(""), "It is.");
    assert.equal(pieces.filter(({ samples }) => samples).length, 1);
    assert.ok(reader.isComplete);
  }
});

test("an error is a piece, and the answer is not complete", () => {
  const reader = new AnswerReader();
  assert.deepEqual(reader.push('data: {"error": {"message": "lost"}}\n\n'), [{ error: "lost" }]);
  assert.equal(reader.isComplete, false);
});
