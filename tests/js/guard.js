// A guard in JavaScript, the same as tests/guests/careful and tests/python/guard.py: it blocks the tool of its configuration while steps
// are open, warns of long arguments, and tidies a text that says so.

import { write } from "chela:policy/log@0.1.0";

let guarded;

export const lifecycle = {
  describe() {
    const attrs = [["limits.cpuMs", "40"]];
    return { name: "careful-js", version: "0.1.0", summary: "Guards one tool, in JavaScript", configSchema: "", attrs };
  },
  configure(json) {
    const { tool, ...unknown } = JSON.parse(json);
    const [path] = Object.keys(unknown);
    if (path !== undefined) throw { path, message: "only `tool` is known" };
    guarded = tool;
  },
};

export const toolGuard = {
  beforeToolCall(request) {
    const args = JSON.parse(request.arguments);
    const text = args.progress ?? "";
    if (text === "!refuse") throw { tag: "invalid-input", val: "it was told to refuse" };
    if (request.tool === guarded) {
      const open = (request.task?.steps ?? []).filter(({ status }) => status !== "done" && status !== "skipped");
      write("info", `${open.length} open for ${request.agent.id}`);
      const refusal = {
        reason: `${request.tool} is guarded`,
        remaining: open.map(({ id }) => id),
        instructions: ["finish the steps"],
      };
      return { verdict: { tag: "block", val: refusal }, attrs: [] };
    }
    if (text.startsWith("!tidy ")) {
      const tidied = { ...args, progress: text.slice("!tidy ".length).trim() };
      return { verdict: { tag: "rewrite", val: JSON.stringify(tidied) }, attrs: [] };
    }
    const verdict = [...text].length > 20 ? { tag: "allow-with", val: "a long text" } : { tag: "allow" };
    return { verdict, attrs: [] };
  },
};
