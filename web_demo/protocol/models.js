// Models and voices of the server, from GET /v1/models and GET /v1/audio/voices.

/** Names of the models, the default first.  A model under another scheduler has its own name, as "kokoro@policy_c". */
export function modelsOf(answer) {
  return (answer?.data ?? []).map(({ id }) => id);
}

/** {voices: [{name, language}], default} of a model.  A server with one model may list its voices without `models`. */
export function voicesOf(answer, model) {
  const listed = answer.models?.find((each) => each.model === model);
  if (listed !== undefined) return listed;
  return (answer.model ?? model) === model ? answer : { voices: [], default: "" };
}
