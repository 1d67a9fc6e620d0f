// A classifier in JavaScript: what a component of a large toolchain costs the gateway. It answers by the first word it knows.

const words = [
  ["장애", "infra_ops"],
  ["outage", "infra_ops"],
  ["테스트", "qa_validation"],
  ["regression", "qa_validation"],
];

export const lifecycle = {
  describe() {
    return { name: "words-js", version: "0.1.0", summary: "A few words, in JavaScript", configSchema: "" };
  },
  configure(json) {
    JSON.parse(json);
  },
};

export const classification = {
  roles(request) {
    return { roles: request.events.map(() => "system-observability"), attrs: [] };
  },
  categories(request) {
    const classify = (conversation) => {
      const text = conversation.texts.join("\n").toLowerCase();
      const found = words.find(([word]) => text.includes(word));
      return {
        primary: found?.[1],
        secondary: [],
        subTags: [],
        confidence: found ? 0.9 : 0,
        source: "rule",
        reason: found ? found[0] : "no word that it knows",
      };
    };
    return { classifications: request.conversations.map(classify), attrs: [] };
  },
};
