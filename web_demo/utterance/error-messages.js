// Error messages in plain words, by error code, WebSocket close code and HTTP status.

const BY_CODE = {
  overloaded: "The server is busy. Try again in a moment.",
  unknown_voice: "The server no longer has this voice. Choose another one.",
  text_too_long: "This text is too long. Shorten it.",
  nothing_to_speak: "This text has no words to speak.",
  synthesis_failed: "The server could not synthesise a sentence. Try again.",
  synthesis_truncated: "The audio of a sentence was too long and was truncated.",
  engine_unavailable: "The model is not ready. Try again in a moment.",
  slow_client: "This connection was too slow for the audio, so the server closed it.",
  session_expired: "The connection was open for too long, so the server closed it. Press Speak to connect again.",
  server_stopping: "The server is restarting. Try again in a moment.",
  unauthorized: "The server did not accept the API key.",
  no_token: "The server did not issue a token for the connection. Try again.",
  quota_exceeded: "The quota of this API key is used up for now. Try again in a minute.",
  unsupported_format: "The server does not support this audio format.",
  internal_error: "An error occurred on the server. Try again.",
  bad_server_message: "The server sent a message that this page does not understand.",
};

/** For an `error` message; the server's own text for unknown codes. */
export function errorMessage({ code, message, retry_after_ms: waitMs }) {
  if (code === "overloaded" && waitMs > 0) {
    return `The server is full: one more listener would cause gaps for others. Try again in ${Math.ceil(waitMs / 1000)} s.`;
  }
  return BY_CODE[code] ?? (message || "An error occurred on the server.");
}

const BY_CLOSE_CODE = {
  1001: "The server is stopping. Press Speak to connect again.",
  1008: "The server refused this connection.",
  1009: BY_CODE.text_too_long,
  1011: BY_CODE.internal_error,
  1012: BY_CODE.server_stopping,
  1013: BY_CODE.overloaded,
};

/** For an open WebSocket that was closed. */
export function closeMessage({ code }) {
  return BY_CLOSE_CODE[code] ?? "The connection was lost. Press Speak to connect again.";
}

/** For a WebSocket that did not open.  Browsers hide the reason; `status` is that of /readyz, or null. */
export function unreachableMessage(status) {
  if (status === null) return "The server is not reachable. Check that it is running.";
  if (status === 200) return "The server did not accept the connection. It may be full; try again in a moment.";
  if (status === 503) return "The server is not ready: the model is loading. Try again in a moment.";
  return `The server did not accept the connection (status ${status}).`;
}
