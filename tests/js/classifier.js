// A classifier in JavaScript, the same as tests/guests/words and tests/python/classifier.py: it answers by the first word it knows.

import { write } from "chela:policy/log@0.1.0";

const words = [
  ["장애", "infra_ops"],
  ["outage", "infra_ops"],
  ["테스트", "qa_validation"],
  ["regression", "qa_validation"],
];

export const lifecycle = {
  describe() {
    const summary = "Answers by the first word it knows, in JavaScript";
    return { name: "words-js", version: "0.1.0", summary, configSchema: "", attrs: [["limits.cpuMs", "40"]] };
  },
  configure(json) {
    const { word, category, ...unknown } = JSON.parse(json);
    const [path] = Object.keys(unknown);
    if (path !== undefined) throw { path, message: "only `word` and `category` are known" };
    if (word !== undefined) words.unshift([word, category]);
  },
};

export const classification = {
  roles(request) {
    const role = (event) =>
      event.sessionKeys.some((key) => key.includes(":subagent:")) ? "delegation-subagent" : "conversation-main";
    return { roles: request.events.map(role), attrs: [] };
  },
  categories(request) {
    const classify = (conversation) => {
      const text = conversation.texts.join("\n").toLowerCase();
      if (text.includes("!refuse")) throw { tag: "invalid-input", val: "it was told to refuse" };
      const found = words.find(([word]) => text.includes(word));
      if (!found) write("info", "no word that it knows");
      return {
        primary: found?.[1],
        secondary: [],
        subTags: found ? [found[0]] : [],
        confidence: found ? 0.9 : 0,
        source: "rule",
        reason: found ? `${found[0]} at ${request.context.nowMs}` : "no word that it knows",
      };
    };
    return { classifications: request.conversations.map(classify), attrs: [] };
  },
};
