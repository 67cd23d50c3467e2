// Models and voices of the server, from GET /v1/models and GET /v1/audio/voices.

/** Names of the models, the default first.  A model under another scheduler has its own name, as "kokoro@policy_c". */
export function modelsOf(answer) {
  return (answer?.data ?? []).map(({ id }) => id);
}

/** {voices: [{name, language}], default} of a model, without aliases.  A server with one model may have no `models`. */
export function voicesOf(answer, model) {
  const listed = answer.models?.find((each) => each.model === model);
  if (listed === undefined && (answer.model ?? model) !== model) return { voices: [], default: "" };
  const { voices, default: preferred } = listed ?? answer;
  return { voices: voices.filter((voice) => voice.alias_of === undefined), default: preferred };
}
