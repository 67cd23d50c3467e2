// Requests of the `openai` package for Node.js: prints a JSON object of what came back.
// Arguments: the folder `node_modules`, the URL of the server.

import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(`${modules}/openai/index.mjs`));
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const input = "Hello there, how are you?";

const formats = {};
for (const response_format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
  const response = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input, response_format });
  formats[response_format] = Buffer.from(await response.arrayBuffer()).subarray(0, 4).toString("hex");
}

const streamed = await client.audio.speech.create({ model: "gpt-4o-mini-tts", voice: "coral", input, response_format: "pcm" });
let bytes = 0;
for await (const part of streamed.body) bytes += part.length;

const controller = new AbortController();
const aborted = client.audio.speech
  .create({ model: "tts-1", voice: "onyx", input: input.repeat(20), response_format: "pcm" }, { signal: controller.signal })
  .then((response) => response.arrayBuffer())
  .then(() => "finished", (error) => error.constructor.name);
setTimeout(() => controller.abort(), 200);

const refusal = await client.audio.speech
  .create({ model: "tts-1", voice: "nobody", input })
  .then(() => "none", (error) => `${error.status} ${error.param}`);

const models = [];
for await (const model of client.models.list()) models.push(model.id);
const retrieved = (await client.models.retrieve("tts-1")).id;
console.log(JSON.stringify({ formats, bytes, aborted: await aborted, refusal, models, retrieved }));
