// Reads an AsyncAPI document from standard input with AsyncAPI's own parser; prints its errors and warnings, and what
// it has understood. Usage: node parse.cjs FOLDER, where npm has installed the parser.
const { createRequire } = require("node:module");
const { readFileSync } = require("node:fs");
const path = require("node:path");

const load = createRequire(path.resolve(process.argv[2], "package.json"));
const { Parser } = load("@asyncapi/parser");

(async () => {
  const { document, diagnostics } = await new Parser().parse(readFileSync(0, "utf8"));
  const told = diagnostics.filter((each) => each.severity <= 1);
  const problems = told.map((each) => `${each.path.join("/")}: ${each.message}`);
  const operations = (document?.operations().all() ?? []).map((each) => ({
    id: each.id(),
    action: each.action(),
    address: each.channels().all()[0].address(),
    server: each.servers().all()[0].url(),
  }));
  const messages = (document?.allMessages().all() ?? []).map((each) => {
    const members = Object.entries(each.payload()?.properties() ?? {});
    return {
      id: each.id(),
      title: each.title(),
      summary: each.summary() ?? null,
      correlation: each.correlationId()?.location() ?? null,
      members: Object.fromEntries(members.map(([name, schema]) => [name, schema.type() ?? null])),
      examples: each.examples().all().map((example) => example.payload()),
      tags: each.tags().all().map((tag) => tag.name()),
    };
  });
  process.stdout.write(JSON.stringify({ problems, operations, messages }));
})();
