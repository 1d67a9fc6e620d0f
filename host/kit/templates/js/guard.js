// {{summary}}.

import { write } from "chela:policy/log@0.1.0";

let scratch = "tmp/";

export const lifecycle = {
  describe: () => ({ name: "{{name}}", version: "0.1.0", summary: "{{summary}}", configSchema: "", attrs: [] }),
  configure(json) {
    const { scratch: given, ...unknown } = JSON.parse(json);
    const [path] = Object.keys(unknown);
    if (path !== undefined) throw { path, message: "only `scratch` is known" };
    if (given !== undefined) scratch = String(given);
  },
};

export const toolGuard = {
  beforeToolCall({ tool, arguments: json, agent }) {
    const path = String(JSON.parse(json).path ?? "");
    if (tool !== "files_delete" || (path.startsWith(scratch) && !path.includes(".."))) {
      return { verdict: { tag: "allow" }, attrs: [] };
    }
    write("info", `${agent.id} wanted to delete ${path}`);
    const reason = `Only files in ${scratch} may be deleted`;
    const instructions = ["Ask a person to delete it, or move it to the scratch folder"];
    return { verdict: { tag: "block", val: { reason, remaining: [], instructions } }, attrs: [] };
  },
};
