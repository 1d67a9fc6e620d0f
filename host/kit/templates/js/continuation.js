// {{summary}}.

export const lifecycle = {
  describe: () => ({ name: "{{name}}", version: "0.1.0", summary: "{{summary}}", configSchema: "", attrs: [] }),
  configure(json) {
    const [path] = Object.keys(JSON.parse(json));
    if (path !== undefined) throw { path, message: "this plugin takes no configuration" };
  },
};

export const prompts = {
  instructions: () => ({ text: "One step at a time. Say what is done.", attrs: [] }),
  next({ task }) {
    if (!task) return { action: { tag: "skip", val: "there is no task" }, attrs: [] };
    const open = task.steps.filter(({ status }) => status !== "done" && status !== "skipped").length;
    return { action: { tag: "send", val: `Go on with ${task.description}: ${open} steps are open.` }, attrs: [] };
  },
};
