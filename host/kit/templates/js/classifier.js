// {{summary}}.

const words = { outage: "infra_ops", 장애: "infra_ops", regression: "qa_validation", 회귀: "qa_validation" };

export const lifecycle = {
  describe: () => ({ name: "{{name}}", version: "0.1.0", summary: "{{summary}}", configSchema: "", attrs: [] }),
  configure(json) {
    const [path] = Object.keys(JSON.parse(json));
    if (path !== undefined) throw { path, message: "this plugin takes no configuration" };
  },
};

export const classification = {
  roles({ events, mainAgents }) {
    const role = ({ eventType, sessionKeys, fromAgent, toAgent }) => {
      const family = eventType.split(".")[0];
      if (["task", "plan", "continuation", "job", "unblock", "zombie"].includes(family)) return "orchestration-task";
      if (["gateway", "plugin", "config", "channel", "policy", "log"].includes(family)) return "system-observability";
      const isSub = sessionKeys.some((key) => key.includes(":subagent:"));
      const areMain = mainAgents.includes(fromAgent) && mainAgents.includes(toAgent);
      return family === "a2a" && areMain && !isSub ? "conversation-main" : "delegation-subagent";
    };
    return { roles: events.map(role), attrs: [] };
  },
  categories({ conversations, categories }) {
    const classify = ({ texts }) => {
      const text = texts.join("\n").toLowerCase();
      // Only categories of the deployment are an answer.
      const found = Object.keys(words).find((word) => text.includes(word) && categories.includes(words[word]));
      const [confidence, reason] = found ? [0.9, `it says ${found}`] : [0, "no word that it knows"];
      return { primary: words[found], secondary: [], subTags: [], confidence, source: "rule", reason };
    };
    return { classifications: conversations.map(classify), attrs: [] };
  },
};
