// Client programs for the present settings and text.  Tests run them to verify the quoting.
//
// `url` is the WebSocket's.  `keyed`: the server requires an API key; the key itself is never included.

const SPEECH_PATH = "/v1/audio/speech"; // of the HTTP API
const WEBSOCKET_ONLY = new Set(["stream_audio", "frame_header", "on_new_context"]);
const KEY_VARIABLE = "REALTIME_TTS_KEY";

/** With the client of realtime_tts. */
export function asPython(config, text, url, { keyed = false } = {}) {
  return pythonProgram(config, keyed, {
    client: "from realtime_tts.client import Audio, connect",
    speak: [
      "    async with connect(",
      `        ${python(url)},`,
      ...(keyed ? [`        api_key=os.environ["${KEY_VARIABLE}"],`] : []),
      ...settings(config).map(([name, value]) => `        ${name}=${python(value)},`),
      "    ) as session:",
      `        await session.send_text(${python(text)})`,
      "        await session.done()",
      "        async for event in session.utterance():",
      "            if isinstance(event, Audio):",
      "                speech += event.data",
      "                sample_rate = event.start.sample_rate",
    ],
  });
}

/** With the `websockets` package only. */
export function asPythonWebsockets(config, text, url, { keyed = false } = {}) {
  const header = `        additional_headers={"Authorization": "Bearer " + os.environ["${KEY_VARIABLE}"]},`;
  return pythonProgram(config, keyed, {
    modules: ["json"],
    client: "import websockets",
    speak: [
      `    config = ${python(Object.fromEntries(settings(config)))}`,
      `    text = ${python(text)}`,
      "    async with websockets.connect(",
      `        ${python(url)},`,
      '        subprotocols=["realtime-tts.v1"],',
      ...(keyed ? [header] : []),
      "        max_size=None,",
      "    ) as socket:",
      '        await socket.send(json.dumps({"type": "session.config", **config}))',
      '        await socket.send(json.dumps({"type": "input.text", "text": text}))',
      '        await socket.send(json.dumps({"type": "input.done"}))',
      "        async for frame in socket:",
      "            if isinstance(frame, bytes):",
      "                speech += frame",
      "                continue",
      "            message = json.loads(frame)",
      '            if message["type"] == "audio.start":',
      '                sample_rate = message["sample_rate"]',
      '            elif message["type"] == "error":',
      '                raise SystemExit(message["message"])',
      '            elif message["type"] == "session.done":',
      "                break",
    ],
  });
}

/** For browsers, and Node from version 22. */
export function asJavaScript(config, text, url, { keyed = false } = {}) {
  const protocols = keyed ? '["realtime-tts.v1", `realtime-tts.token.${token}`]' : '"realtime-tts.v1"';
  return lines(
    ...(keyed ? ["const token = await fetchToken(); // your backend requests POST /v1/realtime/tokens with its API key", ""] : []),
    `const config = ${JSON.stringify(Object.fromEntries(settings(config)), null, 2)};`,
    `const text = ${JSON.stringify(text)};`,
    "",
    `const socket = new WebSocket(${JSON.stringify(url)}, ${protocols});`,
    'socket.binaryType = "arraybuffer";',
    "socket.onopen = () => {",
    '  socket.send(JSON.stringify({ type: "session.config", ...config }));',
    '  socket.send(JSON.stringify({ type: "input.text", text }));',
    '  socket.send(JSON.stringify({ type: "input.done" }));',
    "};",
    "socket.onmessage = ({ data }) => {",
    '  if (typeof data !== "string") {',
    `    console.log(data.byteLength, "bytes of speech, as", ${JSON.stringify(formatOf(config))});`,
    "    return;",
    "  }",
    "  const message = JSON.parse(data);",
    "  console.log(message);",
    '  if (message.type === "session.done") socket.close();',
    "};",
  );
}

/** One request to the HTTP API.  `model` is the default model's name. */
export function asCurl(config, text, url, { keyed = false, model } = {}) {
  const fields = settings(config).filter(([name]) => !WEBSOCKET_ONLY.has(name));
  const body = { model, input: text, ...Object.fromEntries(fields) };
  return lines(
    `curl --fail-with-body -sS -N ${shell(speechUrl(url))} \\`,
    ...(keyed ? [`  -H "Authorization: Bearer $${KEY_VARIABLE}" \\`] : []),
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shell(JSON.stringify(body))} \\`,
    `  -o speech.${formatOf(config)}`,
  );
}

function pythonProgram(config, keyed, { modules = [], client, speak }) {
  const wave = [
    '    with wave.open("speech.wav", "wb") as file:',
    "        file.setnchannels(1)",
    "        file.setsampwidth(2)",
    "        file.setframerate(sample_rate)",
    "        file.writeframes(speech)",
  ];
  const isPcm = formatOf(config) === "pcm";
  return lines(
    ...["asyncio", ...modules, ...(keyed ? ["os"] : []), ...(isPcm ? ["wave"] : [])].map((name) => `import ${name}`),
    "",
    client,
    "",
    "",
    "async def main() -> None:",
    "    speech, sample_rate = bytearray(), 24000",
    ...speak,
    ...(isPcm ? wave : [`    print(len(speech), "bytes of", ${python(formatOf(config))}, "at", sample_rate, "Hz")`]),
    "",
    "",
    "asyncio.run(main())",
  );
}

/** The settings that are not null, with the defaults of this page. */
function settings(config) {
  const set = { response_format: "pcm", stream_audio: true, ...config };
  return Object.entries(set).filter(([name, value]) => /^[a-z_]+$/.test(name) && value !== undefined && value !== null);
}

function formatOf(config) {
  return config.response_format ?? "pcm";
}

function speechUrl(url) {
  const speech = new URL(url);
  speech.protocol = speech.protocol === "wss:" ? "https:" : "http:";
  speech.pathname = speech.pathname.replace(/\/v1\/audio\/speech.*$/, "") + SPEECH_PATH;
  speech.search = "";
  return speech.href;
}

/** A Python literal.  Strings are written as JSON, whose escapes mean the same in Python. */
function python(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

/** One POSIX shell word: between single quotes only the single quote is special. */
function shell(word) {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

function lines(...all) {
  return all.join("\n") + "\n";
}
