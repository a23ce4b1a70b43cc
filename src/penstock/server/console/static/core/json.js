// Reads JSON of events without changing it, and finds members in it.

/** Whether this browser tells how a number is spelled; if not, `parseExact` rounds whole numbers beyond 2^53. */
export const IS_EXACT = JSON.parse("1", (_key, _value, context) => context?.source === "1");

/** Whether a value of `parseExact` has a number that may have been rounded. */
export function mayBeRounded(value) {
  if (typeof value === "number") return !IS_EXACT && Number.isInteger(value) && !Number.isSafeInteger(value);
  return value !== null && typeof value === "object" && Object.values(value).some(mayBeRounded);
}

/** Parse JSON; a whole number that JavaScript would round becomes a BigInt. */
export function parseExact(text) {
  return JSON.parse(text, (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value) || !/^-?\d+$/.test(context?.source ?? "")) return value;
    return BigInt(context.source);
  });
}

/** Write what `parseExact` has read; *indent* is that of `JSON.stringify`. */
export function writeExact(value, indent) {
  const mark = `\u0000${Math.random()}:`;
  const text = JSON.stringify(value, (_key, each) => (typeof each === "bigint" ? mark + each : each), indent);
  return text.replaceAll(new RegExp(`"${JSON.stringify(mark).slice(1, -1).replace(/[\\.]/g, "\\$&")}(-?\\d+)"`, "g"), "$1");
}

/** Break JSON text into indented lines; numbers and texts stay as they are spelled. */
export function indent(text) {
  const parts = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  const found = [];
  let depth = 0;
  const wrap = () => found.push("\n", "  ".repeat(depth));
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at];
    if (part === "{" || part === "[") {
      found.push(part);
      if (parts[at + 1] === "}" || parts[at + 1] === "]") found.push(parts[(at += 1)]);
      else {
        depth += 1;
        wrap();
      }
    } else if (part === "}" || part === "]") {
      depth -= 1;
      wrap();
      found.push(part);
    } else if (part === ",") {
      found.push(part);
      wrap();
    } else found.push(part === ":" ? ": " : part);
  }
  return found.join("");
}

/** Return where the JSON object that begins at *from* ends in *text*. */
export function findEnd(text, from) {
  let depth = 0;
  let isText = false;
  for (let at = from; at < text.length; at += 1) {
    const each = text[at];
    if (isText) {
      if (each === "\\") at += 1;
      else if (each === '"') isText = false;
    } else if (each === '"') isText = true;
    else if (each === "{" || each === "[") depth += 1;
    else if ((each === "}" || each === "]") && (depth -= 1) === 0) return at + 1;
  }
  return text.length;
}

const STEP = /^(?:\.([\p{L}_$][\p{L}\p{N}_$-]*)|\.(\*)|\[(\d+)\]|\[(\*)\]|\[("(?:[^"\\]|\\.)*")\]|\['([^']*)'\])/u;
const COMPARISON = /^\s*(==|!=|<=|>=|<|>|=)\s*(.+?)\s*$/su;

/**
 * Compile a condition such as `$.lines[*].sku == "A-1"`: a path of members, indexes and `*`, compared by
 * == != < <= > >= with JSON, a text in single quotes or a plain word; without a comparison the path has to be there.
 *
 * @returns {(value: any) => boolean}
 * @throws {SyntaxError} says what is wrong
 */
export function compileCondition(text) {
  let rest = text.trim();
  if (!rest.startsWith("$")) throw new SyntaxError('A path begins with $, such as $.customer == "Ada"');
  rest = rest.slice(1);
  const steps = [];
  for (let found = STEP.exec(rest); found; found = STEP.exec(rest)) {
    const [whole, name, star, index, stars, quoted, single] = found;
    if (star || stars) steps.push(null);
    else if (index !== undefined) steps.push(Number(index));
    else steps.push(name ?? single ?? JSON.parse(quoted));
    rest = rest.slice(whole.length);
  }
  const walk = (value, at, test) => {
    if (at === steps.length) return test(value);
    if (value === null || typeof value !== "object") return false;
    if (steps[at] === null) return Object.values(value).some((each) => walk(each, at + 1, test));
    return Object.hasOwn(value, steps[at]) && walk(value[steps[at]], at + 1, test);
  };
  if (!rest.trim()) return (value) => walk(value, 0, () => true);
  const compared = COMPARISON.exec(rest);
  if (!compared) throw new SyntaxError(`The path cannot be read from “${rest.trim().slice(0, 40)}” on: use .member, [0], [*], and == value`);
  const wanted = readValue(compared[2]);
  const same = (value) => (value !== null && typeof value === "object" ? writeExact(value) === writeExact(wanted) : value === wanted);
  const isComparable = (value) => isNumber(value) === isNumber(wanted) && (isNumber(value) || (typeof value === "string" && typeof wanted === "string"));
  const test = {
    "=": same,
    "==": same,
    "!=": (value) => !same(value),
    "<": (value) => isComparable(value) && value < wanted,
    "<=": (value) => isComparable(value) && value <= wanted,
    ">": (value) => isComparable(value) && value > wanted,
    ">=": (value) => isComparable(value) && value >= wanted,
  }[compared[1]];
  return (value) => walk(value, 0, test);
}

/** Read what a path is compared with: JSON, a text in single quotes, or a plain word. */
function readValue(text) {
  const quoted = /^'((?:[^'\\]|\\.)*)'$/su.exec(text);
  if (quoted) return quoted[1].replace(/\\(.)/gsu, "$1");
  try {
    return parseExact(text);
  } catch {
    if (!/["'&|~=<>()[\]{}]/u.test(text)) return text;
    throw new SyntaxError(`“${text.slice(0, 40)}” is no value: write "a text", 7, true or null. There is one comparison, by == != < <= > or >=.`);
  }
}

function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint";
}
