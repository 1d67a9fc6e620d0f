// A continuation in JavaScript, the same as tests/guests/firm and tests/python/continuation.py: it says its word and the open steps, waits
// for whoever fails again and again, and leaves alone whom its configuration names.

import { write } from "chela:policy/log@0.1.0";

let word;
let spare;

export const lifecycle = {
  describe() {
    const attrs = [["limits.cpuMs", "40"]];
    const summary = "Keeps an agent at its task, in JavaScript";
    return { name: "firm-js", version: "0.1.0", summary, configSchema: "", attrs };
  },
  configure(json) {
    const { word: given, spare: spared, ...unknown } = JSON.parse(json);
    const [path] = Object.keys(unknown);
    if (path !== undefined) throw { path, message: "only `word` and `spare` are known" };
    word = given ?? "go on";
    spare = spared;
  },
};

export const prompts = {
  instructions({ agent }) {
    if (agent.id === "!refuse") throw { tag: "invalid-input", val: "it was told to refuse" };
    return { text: `${word}, ${agent.role} ${agent.id}`, attrs: [] };
  },
  next(request) {
    const { agent, layer, task, blocker, counters, sameError, lastError } = request;
    if (agent.id === spare) return { action: { tag: "skip", val: `${agent.id} is spared` }, attrs: [] };
    if (sameError >= 2) {
      write("info", `${sameError} times ${lastError}`);
      return { action: { tag: "backoff", val: BigInt(sameError) * 1000n }, attrs: [] };
    }
    const open = (task?.steps ?? []).filter(({ status }) => status !== "done" && status !== "skipped");
    const why = blocker === undefined ? "" : ` (${blocker.kind}: ${blocker.reason})`;
    const counted = `${counters.inARow}/${counters.inARowMax}`;
    const text = `[${layer} ${counted}] ${word}: ${open.map(({ content }) => content).join(", ")}${why}`;
    return { action: { tag: "send", val: text }, attrs: [] };
  },
};
