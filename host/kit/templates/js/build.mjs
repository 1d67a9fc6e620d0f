// Turns plugin.js into a component; `chela plugin build` runs it as: node build.mjs SOURCE WIT WORLD OUT

import { readFile, writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [source, witPath, worldName, out] = process.argv.slice(2);
const { component } = await componentize(await readFile(source, "utf8"), {
  witPath,
  worldName,
  // Without these it imports nothing of WASI.
  disableFeatures: ["random", "stdio", "clocks", "http", "fetch-event"],
});
await writeFile(out, component);
