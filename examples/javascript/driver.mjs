// A KV cache of one attention layer, judged over a pipe: kv-conformance check 'cmd:node driver.mjs'
// No dependencies. `--fault NAME` plants one mistake: position-from-one, reset-keeps-length, write-first,
// stale-weights, no-scale.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

const fault = process.argv[2] === "--fault" ? process.argv[3] : "";
const PARAMETERS = ["query", "key", "value", "output"];
const FEATURES = ["gqa", "full_prefix", "update_parameters", "rewire", "poison", "evidence", "work", "storage", "snapshot"];

class Refusal extends Error {
  constructor(kind, message, details = {}) {
    super(message);
    this.reply = { kind, message, ...details };
  }
}

// ---- numbers and arrays of the protocol

const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0 };
const numberIn = (given) => (typeof given === "string" ? SPECIAL[given] : given);
function numberOut(value) {
  if (Number.isFinite(value)) return Object.is(value, -0) ? "-0" : value; // JSON.stringify(-0) is 0
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
const arrayIn = (given) => ({ shape: given.shape, data: Float64Array.from(given.data, numberIn) });
const arrayOut = (shape, data) => ({ dtype: "float64", shape, data: Array.from(data, numberOut) });
const bitsOf = (value) => {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
};

// ---- the mathematics of one row

function project(row, weights, width) {
  const result = new Float64Array(width);
  for (let i = 0; i < row.length; i++)
    for (let j = 0; j < width; j++) result[j] += row[i] * weights[i * width + j];
  return result;
}

function rotated(heads, position, { head_width: d, rope }) {
  const result = Float64Array.from(heads);
  for (let start = 0; start < heads.length; start += d)
    for (let i = 0; i < d / 2; i++) {
      const angle = position * Math.pow(rope.base, (-2 * i) / d);
      const [left, right] = rope.pairing === "adjacent" ? [start + 2 * i, start + 2 * i + 1] : [start + i, start + i + d / 2];
      const [c, s] = [Math.cos(angle), Math.sin(angle)];
      result[left] = heads[left] * c - heads[right] * s;
      result[right] = heads[left] * s + heads[right] * c;
    }
  return result;
}

// One head's query over `count` rows; keyAt and valueAt give row t. Returns its weights and mixture.
function attend(query, count, keyAt, valueAt, stage) {
  const d = query.length;
  const scale = fault === "no-scale" ? 1 : 1 / Math.sqrt(d);
  const weights = new Float64Array(count);
  for (let t = 0; t < count; t++) {
    const key = keyAt(t);
    let dot = 0;
    for (let i = 0; i < d; i++) dot += query[i] * key[i];
    weights[t] = dot * scale;
  }
  finite(weights, stage);
  const largest = weights.reduce((a, b) => Math.max(a, b));
  let total = 0;
  for (let t = 0; t < count; t++) total += weights[t] = Math.exp(weights[t] - largest);
  const mixed = new Float64Array(d);
  for (let t = 0; t < count; t++) {
    weights[t] /= total;
    const value = valueAt(t);
    for (let i = 0; i < d; i++) mixed[i] += weights[t] * value[i];
  }
  return { weights, mixed };
}

function finite(numbers, stage, offset = 0) {
  const index = numbers.findIndex((value) => !Number.isFinite(value));
  if (index < 0) return numbers;
  throw new Refusal("non_finite", `${stage} is not finite`, {
    stage, index: index + offset, value: numberOut(numbers[index]),
  });
}

const head = (heads, index, d) => heads.subarray(index * d, (index + 1) * d);

// ---- layers: every parameter is a node; its object is its identity, its revision counts updates

const node = (array) => ({ ...array, revision: 0 });

function buildLayer({ config, parameters }) {
  return { config, nodes: PARAMETERS.map((name) => node(arrayIn(parameters[name]))) };
}

function rewire({ layer, config, fresh }) {
  const nodes = layer.nodes.map((old, i) => (fresh.includes(PARAMETERS[i]) ? node({ ...old }) : old));
  return { config: config ?? layer.config, nodes };
}

function updateParameters({ layer, parameters }) {
  for (const [name, given] of Object.entries(parameters)) {
    const parameter = layer.nodes[PARAMETERS.indexOf(name)];
    parameter.data = arrayIn(given).data;
    parameter.revision += 1;
  }
}

// ---- the cache

let buffersMade = 0;

function buildCache({ layer, batch_size: B, capacity: C }) {
  const { kv_heads: G, head_width: d, rope } = layer.config;
  if (B < 1) throw new Refusal("zero_batch_size", "a batch holds at least one lane");
  if (C < 1) throw new Refusal("zero_capacity", "a cache holds at least one row");
  if (C > rope.max_positions)
    throw new Refusal("capacity_exceeds_positions", "more rows than positions", { expected: rope.max_positions, found: C });
  const elements = [B, G, C, d].map(BigInt).reduce((a, b) => a * b);
  if (elements > 2n ** 63n - 1n) throw new Refusal("element_count_overflow", "too many elements", { found: [B, G, C, d] });
  const buffer = (name) => {
    try {
      return { name: `${name} ${++buffersMade}`, data: new Float64Array(Number(elements)) };
    } catch {
      throw new Refusal("allocation_failed", "no memory for the storage", { found: Number(elements) });
    }
  };
  const bound = layer.nodes.map((parameter) => ({ parameter, revision: parameter.revision }));
  return { B, C, config: layer.config, bound, keys: buffer("keys"), values: buffer("values"), length: 0 };
}

const rowAt = (cache, buffer, lane, group, slot) => {
  const { kv_heads: G, head_width: d } = cache.config;
  const start = ((lane * G + group) * cache.C + slot) * d;
  return buffer.data.subarray(start, start + d);
};

function checkCall(layer, cache, { shape }) {
  const refuse = (kind, expected, found) => {
    throw new Refusal(kind, `${kind.replaceAll("_", " ")}: expected ${expected}, found ${found}`, { expected, found });
  };
  const own = layer.config, tied = cache.config;
  if (shape.length !== 3) refuse("input_rank", 3, shape.length);
  if (shape[1] !== 1) refuse("single_token_required", 1, shape[1]);
  if (shape[0] !== cache.B) refuse("input_batch_mismatch", cache.B, shape[0]);
  if (shape[2] !== own.model_width) refuse("input_width_mismatch", own.model_width, shape[2]);
  if (own.model_width !== tied.model_width) refuse("cache_model_width_mismatch", tied.model_width, own.model_width);
  if (own.heads !== tied.heads) refuse("cache_head_count_mismatch", tied.heads, own.heads);
  if (own.kv_heads !== tied.kv_heads) refuse("cache_head_count_mismatch", tied.kv_heads, own.kv_heads);
  if (own.head_width !== tied.head_width) refuse("cache_head_width_mismatch", tied.head_width, own.head_width);
  if (cache.bound.some(({ parameter }, i) => parameter !== layer.nodes[i]))
    throw new Refusal("cache_layer_mismatch", "the cache belongs to another layer");
  const stale = cache.bound.findIndex(({ parameter, revision }) => parameter.revision !== revision);
  if (stale >= 0 && fault !== "stale-weights")
    throw new Refusal("cache_layer_revision_mismatch", `${PARAMETERS[stale]} was updated`, {
      parameter: stale, expected: cache.bound[stale].revision, found: layer.nodes[stale].revision,
    });
  const settings = ({ rope, head_width }) => [head_width, rope.max_positions, bitsOf(rope.base), rope.pairing];
  if (settings(own).join() !== settings(tied).join()) refuse("cache_rope_mismatch", settings(tied), settings(own));
  if (cache.length >= cache.C) refuse("full", cache.C, cache.length + 1);
}

// Computes everything and changes nothing: what it returns is all that a commit needs.
function prepare(layer, cache, rows) {
  const { model_width: D, heads: H, kv_heads: G, head_width: d } = layer.config;
  const position = cache.length + (fault === "position-from-one" ? 1 : 0), length = cache.length + 1;
  const [query, key, value] = [H, G, G].map((count, i) => {
    const all = new Float64Array(cache.B * count * d);
    for (let b = 0; b < cache.B; b++)
      all.set(project(rows.data.subarray(b * D, (b + 1) * D), layer.nodes[i].data, count * d), b * count * d);
    return finite(all, PARAMETERS[i]);
  });
  const rotatedQuery = finite(rotated(query, position, layer.config), "rotated_query");
  const rotatedKey = finite(rotated(key, position, layer.config), "rotated_key");
  const weights = new Float64Array(cache.B * H * length), mixed = new Float64Array(cache.B * H * d);
  for (let b = 0; b < cache.B; b++)
    for (let h = 0; h < H; h++) {
      const group = Math.floor(h / (H / G)), row = b * H + h, own = b * G + group;
      const keyAt = (t) => (t < cache.length ? rowAt(cache, cache.keys, b, group, t) : head(rotatedKey, own, d));
      const valueAt = (t) => (t < cache.length ? rowAt(cache, cache.values, b, group, t) : head(value, own, d));
      const result = attend(head(rotatedQuery, row, d), length, keyAt, valueAt, "score");
      weights.set(result.weights, row * length);
      mixed.set(finite(result.mixed, "mix", row * d), row * d);
    }
  if (fault === "write-first") write(cache, rotatedKey, value);
  const output = new Float64Array(cache.B * D); // lanes hold their heads side by side, so mixed is merged already
  for (let b = 0; b < cache.B; b++)
    output.set(project(mixed.subarray(b * H * d, (b + 1) * H * d), layer.nodes[3].data, D), b * D);
  finite(output, "output");
  finite(rotatedKey, "candidate_key");
  finite(value, "candidate_value");
  const shaped = (count, data) => arrayOut([cache.B, count, 1, d], data);
  const step = {
    output: arrayOut([cache.B, 1, D], output),
    query: shaped(H, query), key: shaped(G, key), value: shaped(G, value),
    rotated_query: shaped(H, rotatedQuery), rotated_key: shaped(G, rotatedKey),
    weights: arrayOut([cache.B, H, 1, length], weights),
    heads: shaped(H, mixed), merged: arrayOut([cache.B, 1, H * d], mixed), length,
    work: { position: cache.length, full_prefix_rows: length, incremental_rows: 1, reused_rows: cache.length },
  };
  return { rotatedKey, value, step };
}

function write(cache, key, value) {
  const { kv_heads: G, head_width: d } = cache.config;
  for (let b = 0; b < cache.B; b++)
    for (let g = 0; g < G; g++) {
      rowAt(cache, cache.keys, b, g, cache.length).set(head(key, b * G + g, d));
      rowAt(cache, cache.values, b, g, cache.length).set(head(value, b * G + g, d));
    }
}

function append({ layer, cache, rows: given }) {
  const rows = arrayIn(given);
  checkCall(layer, cache, rows);
  const ticket = prepare(layer, cache, rows);
  write(cache, ticket.rotatedKey, ticket.value);
  cache.length += 1;
  return ticket.step;
}

// The uncached path: every row of the prefix at once, sharing nothing with `prepare` but the formulas above.
function fullPrefix({ layer, rows: given }) {
  const { shape: [B, T], data } = arrayIn(given);
  const { model_width: D, heads: H, kv_heads: G, head_width: d } = layer.config;
  const output = new Float64Array(B * T * D);
  for (let b = 0; b < B; b++) {
    const rows = Array.from({ length: T }, (_, t) => data.subarray((b * T + t) * D, (b * T + t + 1) * D));
    const [query, key, value] = [H, G, G].map((count, i) =>
      rows.map((row) => finite(project(row, layer.nodes[i].data, count * d), PARAMETERS[i])));
    const turned = [query, key].map((all) => all.map((row, t) => finite(rotated(row, t, layer.config), "rotation")));
    for (let t = 0; t < T; t++) {
      const merged = new Float64Array(H * d);
      for (let h = 0; h < H; h++) {
        const group = Math.floor(h / (H / G));
        const own = head(turned[0][t], h, d);
        const { mixed } = attend(own, t + 1, (s) => head(turned[1][s], group, d), (s) => head(value[s], group, d), "score");
        merged.set(mixed, h * d);
      }
      output.set(finite(project(merged, layer.nodes[3].data, D), "output"), (b * T + t) * D);
    }
  }
  return { output: arrayOut([B, T, D], output) };
}

function logical(cache, buffer) {
  const { kv_heads: G, head_width: d } = cache.config, n = cache.length;
  const data = new Float64Array(cache.B * G * n * d);
  for (let b = 0; b < cache.B; b++)
    for (let g = 0; g < G; g++)
      for (let t = 0; t < n; t++) data.set(rowAt(cache, buffer, b, g, t), ((b * G + g) * n + t) * d);
  return arrayOut([cache.B, G, n, d], data);
}

const snapshot = ({ cache }) => ({ keys: logical(cache, cache.keys), values: logical(cache, cache.values) });

function token(cache, { name, data }) {
  if (data.length <= 4096)
    return { address: name, data: arrayOut([cache.B, cache.config.kv_heads, cache.C, cache.config.head_width], data) };
  const digest = createHash("sha256").update(new Uint8Array(data.buffer)).digest("hex");
  return { address: name, digest, nbytes: data.byteLength, elements: data.length };
}

function observe({ cache }) {
  const storage = [cache.keys, cache.values].map((buffer) => token(cache, buffer));
  return { length: cache.length, capacity: cache.C, ...snapshot({ cache }), storage };
}

function poison({ cache, value }) {
  for (const buffer of [cache.keys, cache.values])
    for (let b = 0; b < cache.B; b++)
      for (let g = 0; g < cache.config.kv_heads; g++)
        for (let t = cache.length; t < cache.C; t++) rowAt(cache, buffer, b, g, t).fill(numberIn(value));
}

function reset({ cache }) {
  if (fault !== "reset-keeps-length") cache.length = 0;
}

// ---- the protocol

const declaration = {
  name: "javascript example", version: "1", levels: ["layer"], dtypes: ["float64"], features: FEATURES,
  keys: "rotated", heads: "grouped", rows_per_append: "one", capacity: "exact",
};

const objects = new Map();
let handles = 0;
const standing = (object) => {
  objects.set(++handles, object);
  return { handle: handles };
};

const REQUESTS = {
  hello: () => ({ protocol: 1, declaration, numbers: "decimal", offers: ["overwrite_row"] }),
  echo: ({ values }) => {
    const { shape, data } = arrayIn(values);
    return { values: arrayOut(shape, data), bits: Array.from(data, bitsOf) };
  },
  build_layer: (request) => standing(buildLayer(request)),
  build_cache: (request) => standing(buildCache(request)),
  rewire: (request) => standing(rewire(request)),
  append, observe, snapshot,
  full_prefix: fullPrefix,
  reset, poison,
  update_parameters: updateParameters,
  overwrite_row: ({ cache, buffer, index, data }) =>
    (buffer ? cache.values : cache.keys).data.set(arrayIn(data).data, index),
  drop: ({ handles: numbers }) => numbers.forEach((number) => objects.delete(number)),
  bye: () => null,
};

function answer(request) {
  const { seq, method } = request;
  try {
    if (!Object.hasOwn(REQUESTS, method)) throw new Error(`there is no request ${method}`);
    for (const name of ["layer", "cache"])
      if (name in request) {
        if (!objects.has(request[name])) throw new Error(`${name} ${request[name]} does not stand`);
        request[name] = objects.get(request[name]);
      }
    return { seq, result: REQUESTS[method](request) ?? null };
  } catch (error) {
    if (error instanceof Refusal) return { seq, rejected: error.reply };
    return { seq, error: { type: error.name, message: error.message, detail: error.stack } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(JSON.stringify(answer(request)) + "\n");
  if (request.method === "bye") break;
}
process.exit(0);
