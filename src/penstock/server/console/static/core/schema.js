// Makes a form's fields of a JSON Schema, and an event of what was entered.
import { parseExact } from "./json.js";

const DEPTH_MAX = 8;
const FIELDS_MAX = 500;

/**
 * Return the field that *schema* describes: {kind, schema, required, …}; kind is text, number, integer, boolean, choice, object
 * (with members), list (with item), or json for all else: also for what *schema* repeats within itself by the references *above*,
 * and beyond the fields that are *left*, since each level of such a schema has many times those of the one before.
 */
export function toField(schema, root = schema, depth = 0, above = ["#"], left = { fields: FIELDS_MAX }) {
  const plain = resolve(schema, root);
  const about = { title: plain.title, description: plain.description, example: plain.examples?.[0] ?? plain.default };
  const choices = plain.enum ?? (plain.const === undefined ? null : [plain.const]);
  if (choices) return { ...about, kind: "choice", choices };
  const type = Array.isArray(plain.type) ? plain.type.find((each) => each !== "null") : plain.type;
  const ref = schema?.$ref;
  if (depth > DEPTH_MAX || above.includes(ref) || plain.anyOf || plain.oneOf) return { ...about, kind: "json" };
  const below = (part) => toField(part, root, depth + 1, ref ? [...above, ref] : above, left);
  if (type === "string") return { ...about, kind: "text", format: plain.format };
  if (type === "integer" || type === "number" || type === "boolean") return { ...about, kind: type };
  if (plain.properties && (type === "object" || type === undefined)) {
    const required = new Set(plain.required ?? []);
    const names = [...new Set([...Object.keys(plain.properties), ...required])];
    if (names.length > left.fields) return { ...about, kind: "json" };
    left.fields -= names.length;
    const members = names.map((name) => ({ name, required: required.has(name), field: below(plain.properties[name] ?? {}) }));
    return { ...about, kind: "object", members };
  }
  if (type === "array" && plain.items && !Array.isArray(plain.items)) return { ...about, kind: "list", item: below(plain.items) };
  return { ...about, kind: "json" };
}

function resolve(schema, root, depth = 0) {
  if (schema === null || typeof schema !== "object" || depth > DEPTH_MAX) return {};
  let found = schema;
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#")) {
    let target = root;
    for (const part of schema.$ref.slice(1).split("/").filter(Boolean)) target = target?.[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")];
    found = resolve(target, root, depth + 1);
  }
  for (const each of Array.isArray(found.allOf) ? found.allOf : []) {
    const more = resolve(each, root, depth + 1);
    found = { ...more, ...found, properties: { ...more.properties, ...found.properties }, required: [...(more.required ?? []), ...(found.required ?? [])] };
    if (!Object.keys(found.properties).length) delete found.properties;
  }
  return found;
}

/** Return what was entered as a value of JSON; undefined if nothing was. What cannot be read stays text: the hub says what is wrong. */
export function toValue(field, entered) {
  switch (field.kind) {
    case "object": {
      const found = {};
      for (const { name, field: member } of field.members) {
        const value = toValue(member, entered?.[name]);
        // A member named __proto__ is a member like others.
        if (value !== undefined) Object.defineProperty(found, name, { value, enumerable: true, configurable: true, writable: true });
      }
      return Object.keys(found).length ? found : undefined;
    }
    case "list":
      return entered?.length ? entered.map((each) => toValue(field.item, each) ?? null) : undefined;
    case "text":
      return entered || undefined;
    case "choice":
      return entered === undefined || entered === "" ? undefined : field.choices[Number(entered)];
    default:
      if (!entered?.trim()) return undefined;
      try {
        return parseExact(entered);
      } catch {
        return entered;
      }
  }
}

/** Return what a form shows for *value*: the opposite of `toValue`. */
export function toEntered(field, value) {
  if (value === undefined) return undefined;
  switch (field.kind) {
    case "object":
      if (value === null || typeof value !== "object") return undefined;
      return Object.fromEntries(field.members.map(({ name, field: member }) => [name, toEntered(member, Object.hasOwn(value, name) ? value[name] : undefined)]));
    case "list":
      return Array.isArray(value) ? value.map((each) => toEntered(field.item, each)) : undefined;
    case "text":
      return typeof value === "string" ? value : undefined;
    case "choice": {
      const at = field.choices.findIndex((each) => JSON.stringify(each) === JSON.stringify(value));
      return at < 0 ? undefined : String(at);
    }
    default:
      return typeof value === "bigint" ? String(value) : JSON.stringify(value);
  }
}

/** Return the violations of the schema in the hub's *reason*, by the pointer of the member that they are about. */
export function readViolations(reason) {
  const found = new Map();
  for (const line of String(reason ?? "").split("\n")) {
    const parts = /^(#[^:\s]*): (.*)$/.exec(line);
    if (!parts || /^\d+ schema violations? found$/.test(parts[2])) continue;
    const missing = /^required key \[(.*)\] not found$/.exec(parts[2]);
    const pointer = missing ? `${parts[1]}/${escapePointer(missing[1])}` : parts[1];
    found.set(pointer, [...(found.get(pointer) ?? []), missing ? "is required" : parts[2]]);
  }
  return found;
}

/** Write a member's name as a part of a JSON Pointer (RFC 6901). */
export function escapePointer(name) {
  return String(name).replaceAll("~", "~0").replaceAll("/", "~1");
}
