//! A driver in Rust 1.80 or newer: one file, no dependencies, level `layer`, decimal numbers.
//!
//!     rustc --edition 2021 -O driver.rs && kv-conformance check 'cmd:./driver'
//!
//! It has what the profiles core, chunks, gqa, rollback and fork ask for, and knows nothing of the kit but
//! docs/wire-protocol.md. First JSON, then arrays, the layer and its cache, at the end the conversation.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::rc::Rc;

/// What went wrong is the rest of the reply: an error, or a refusal.
type Outcome<T> = Result<T, String>;

fn error(message: &str) -> String {
    format!(r#""error":{{"message":"{message}"}}"#)
}

fn refuse(kind: &str, applies: bool) -> Outcome<()> {
    if applies { Err(format!(r#""rejected":{{"kind":"{kind}"}}"#)) } else { Ok(()) }
}

fn finite(stage: &str, values: &[f64]) -> Outcome<()> {
    let Some(index) = values.iter().position(|x| !x.is_finite()) else { return Ok(()) };
    let more = format!(r#""stage":"{stage}","index":{index},"value":{}"#, number(values[index]));
    Err(format!(r#""rejected":{{"kind":"non_finite",{more}}}"#))
}

// ---- JSON. Sizes go up to 2^48, so that a float holds every number of a request.

enum Json {
    Null,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

struct Parser<'a>(&'a [u8]);

impl Parser<'_> {
    /// Steps over spaces, and over `wanted` if it comes next.
    fn skip(&mut self, wanted: u8) -> bool {
        self.0 = self.0.trim_ascii_start();
        let after = self.0.strip_prefix(&[wanted]);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    /// What stands before the first byte that `ends` it.
    fn until(&mut self, ends: fn(&u8) -> bool) -> String {
        let (text, rest) = self.0.split_at(self.0.iter().position(ends).unwrap_or(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn value(&mut self) -> Outcome<Json> {
        if self.skip(b'"') {
            let text = self.until(|b| b"\"\\".contains(b)); // no text that this driver needs is ever escaped
            return if self.skip(b'"') { Ok(Json::Text(text)) } else { Err(error("a text has escapes or no end")) };
        }
        if self.skip(b'[') {
            let mut items = Vec::new();
            while !self.skip(b']') {
                items.push(self.value()?);
                self.skip(b',');
            }
            return Ok(Json::List(items));
        }
        if self.skip(b'{') {
            let mut entries = Vec::new();
            while !self.skip(b'}') {
                let key = self.value()?.text()?.to_string();
                self.skip(b':');
                entries.push((key, self.value()?));
                self.skip(b',');
            }
            return Ok(Json::Object(entries));
        }
        match self.until(|b| b" ,]}".contains(b)).as_str() {
            "null" | "true" | "false" => Ok(Json::Null),
            word => word.parse().map(Json::Number).map_err(|_| error("a number was expected")),
        }
    }
}

impl Json {
    fn get(&self, key: &str) -> Outcome<&Json> {
        let Json::Object(entries) = self else { return Err(error("an object was expected")) };
        let found = entries.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value).ok_or_else(|| error(&format!("{key} is missing")))
    }

    fn text(&self) -> Outcome<&str> {
        if let Json::Text(text) = self { Ok(text) } else { Err(error("a text was expected")) }
    }

    fn list<T>(&self, each: fn(&Json) -> Outcome<T>) -> Outcome<Vec<T>> {
        if let Json::List(items) = self { items.iter().map(each).collect() } else { Err(error("a list was expected")) }
    }

    /// A number, or one of the texts nan, inf and -inf; `parse` knows them, and rounds correctly.
    fn float(&self) -> Outcome<f64> {
        match self {
            Json::Number(x) => Ok(*x),
            other => other.text()?.parse().map_err(|_| error("a number was expected")),
        }
    }

    fn size(&self) -> Outcome<usize> {
        self.float().map(|x| x as usize)
    }
}

/// `{:?}` writes the shortest decimal that reads back to the same bits, and minus zero as -0.0.
fn number(x: f64) -> String {
    if x.is_nan() { "\"nan\"".into() } else if x.is_infinite() { format!("\"{x}\"") } else { format!("{x:?}") }
}

// ---- Arrays

struct Array {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    fn read(json: &Json) -> Outcome<Array> {
        let (shape, data) = (json.get("shape")?.list(Json::size)?, json.get("data")?.list(Json::float)?);
        let fits = shape.iter().product::<usize>() == data.len();
        if fits { Ok(Array { shape, data }) } else { Err(error("the shape does not fit the data")) }
    }

    fn write(&self) -> String {
        let data: Vec<String> = self.data.iter().map(|&x| number(x)).collect();
        format!(r#"{{"dtype":"float64","shape":{:?},"data":[{}]}}"#, self.shape, data.join(","))
    }
}

// ---- The layer and its cache

/// Two layers that hold the same parameters hold the same object; its address is their identity.
struct Layer {
    model: usize,
    heads: usize,
    groups: usize,
    width: usize,
    base: f64,
    half: bool,
    positions: usize,
    parameters: [Rc<Vec<f64>>; 4],
}

#[derive(Clone)]
struct Cache {
    layer: Rc<Layer>,
    lanes: usize,
    capacity: usize,
    length: usize,
    keys: Vec<f64>, // rotated, [B,G,C,d]
    values: Vec<f64>,
}

/// `rows` [B,T,in] times `weight` [in, heads * width], as [B,heads,T,width].
fn project(rows: &Array, weight: &[f64], heads: usize, width: usize) -> Array {
    let (steps, inputs) = (rows.shape[1], rows.shape[2]);
    let shape = vec![rows.shape[0], heads, steps, width];
    let mut out = Array { data: vec![0.0; shape.iter().product()], shape };
    for (at, value) in out.data.iter_mut().enumerate() {
        let (f, t, h, lane) = (at % width, at / width % steps, at / width / steps % heads, at / width / steps / heads);
        let row = &rows.data[(lane * steps + t) * inputs..][..inputs];
        *value = row.iter().enumerate().map(|(i, x)| x * weight[(i * heads + h) * width + f]).sum();
    }
    out
}

impl Layer {
    fn read(message: &Json) -> Outcome<Layer> {
        let (config, parameters) = (message.get("config")?, message.get("parameters")?);
        let rope = config.get("rope")?;
        let parameter = |name| Ok::<_, String>(Rc::new(Array::read(parameters.get(name)?)?.data));
        Ok(Layer {
            model: config.get("model_width")?.size()?,
            heads: config.get("heads")?.size()?,
            groups: config.get("kv_heads")?.size()?,
            width: config.get("head_width")?.size()?,
            base: rope.get("base")?.float()?,
            half: rope.get("pairing")?.text()? == "half",
            positions: rope.get("max_positions")?.size()?,
            parameters: [parameter("query")?, parameter("key")?, parameter("value")?, parameter("output")?],
        })
    }

    fn rotate(&self, heads: &mut Array, start: usize) {
        let (steps, width) = (heads.shape[2], self.width);
        for (row, x) in heads.data.chunks_exact_mut(width).enumerate() {
            for i in 0..width / 2 {
                let (l, r) = if self.half { (i, i + width / 2) } else { (2 * i, 2 * i + 1) };
                let angle = (start + row % steps) as f64 * self.base.powf(-2.0 * i as f64 / width as f64);
                let (sin, cos) = angle.sin_cos();
                (x[l], x[r]) = (x[l] * cos - x[r] * sin, x[l] * sin + x[r] * cos);
            }
        }
    }
}

impl Cache {
    fn build(layer: &Rc<Layer>, lanes: usize, capacity: usize) -> Outcome<Cache> {
        refuse("zero_batch_size", lanes == 0)?;
        refuse("zero_capacity", capacity == 0)?;
        refuse("capacity_exceeds_positions", capacity > layer.positions)?;
        let count = [capacity, layer.groups, layer.width].iter().try_fold(lanes, |n, &size| n.checked_mul(size));
        let count = count.filter(|&n| n <= i64::MAX as usize);
        refuse("element_count_overflow", count.is_none())?;
        let zeros = || {
            let mut buffer = Vec::new();
            refuse("allocation_failed", buffer.try_reserve_exact(count.unwrap_or(0)).is_err())?;
            buffer.resize(count.unwrap_or(0), 0.0);
            Ok::<_, String>(buffer)
        };
        Ok(Cache { layer: layer.clone(), lanes, capacity, length: 0, keys: zeros()?, values: zeros()? })
    }

    /// The refusals in their order; a number that is not finite shows while computing.
    fn check(&self, layer: &Layer, rows: &Array) -> Outcome<()> {
        let own = &self.layer;
        refuse("input_rank", rows.shape.len() != 3)?;
        refuse("empty_chunk", rows.shape[1] == 0)?;
        refuse("input_batch_mismatch", rows.shape[0] != self.lanes)?;
        refuse("input_width_mismatch", rows.shape[2] != layer.model)?;
        refuse("cache_model_width_mismatch", layer.model != own.model)?;
        refuse("cache_head_count_mismatch", (layer.heads, layer.groups) != (own.heads, own.groups))?;
        refuse("cache_head_width_mismatch", layer.width != own.width)?;
        let same = |i: usize| Rc::ptr_eq(&layer.parameters[i], &own.parameters[i]);
        refuse("cache_layer_mismatch", !(0..4).all(same))?;
        let rope = |of: &Layer| (of.base.to_bits(), of.positions, of.half);
        refuse("cache_rope_mismatch", rope(layer) != rope(own))?;
        refuse("full", self.length + rows.shape[1] > self.capacity)
    }

    /// Everything is computed aside, and written into the cache when all of it has come out finite.
    fn append(&mut self, layer: &Layer, rows: &Array) -> Outcome<Array> {
        self.check(layer, rows)?;
        let (heads, groups, width, [wq, wk, wv, wo]) = (layer.heads, layer.groups, layer.width, &layer.parameters);
        let (steps, start, capacity) = (rows.shape[1], self.length, self.capacity);
        finite("input", &rows.data)?;
        let [mut query, mut key] = [project(rows, wq, heads, width), project(rows, wk, groups, width)];
        let value = project(rows, wv, groups, width);
        finite("query", &query.data)?;
        finite("key", &key.data)?;
        finite("value", &value.data)?;
        layer.rotate(&mut query, start);
        layer.rotate(&mut key, start);
        finite("rotated query", &query.data)?;
        finite("rotated key", &key.data)?;

        let mut merged = Array { shape: vec![self.lanes, steps, heads * width], data: vec![0.0; query.data.len()] };
        for row in 0..self.lanes * heads * steps {
            let (t, head, lane) = (row % steps, row / steps % heads, row / steps / heads);
            let group = lane * groups + head / (heads / groups);
            let seen = start + t + 1;
            // A key or value is in the cache, or among the new rows.
            let at = |old: &Vec<f64>, new: &Array, position: usize, f: usize| match position.checked_sub(start) {
                None => old[(group * capacity + position) * width + f],
                Some(t) => new.data[(group * steps + t) * width + f],
            };
            let q = &query.data[row * width..][..width];
            let dot = |j| (0..width).map(|f| q[f] * at(&self.keys, &key, j, f)).sum::<f64>();
            let scores: Vec<f64> = (0..seen).map(|j| dot(j) * (1.0 / (width as f64).sqrt())).collect();
            finite("scores", &scores)?;
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            let out = &mut merged.data[((lane * steps + t) * heads + head) * width..][..width];
            for (f, mixed) in out.iter_mut().enumerate() {
                *mixed = (0..seen).map(|j| powers[j] / sum * at(&self.values, &value, j, f)).sum();
            }
        }
        finite("mixture", &merged.data)?;
        let mut output = project(&merged, wo, 1, layer.model);
        output.shape.remove(1);
        finite("output", &output.data)?;

        for (buffer, new) in [(&mut self.keys, &key), (&mut self.values, &value)] {
            for (group, rows) in new.data.chunks_exact(steps * width).enumerate() {
                buffer[(group * capacity + start) * width..][..steps * width].copy_from_slice(rows);
            }
        }
        self.length += steps;
        Ok(output)
    }

    /// The rows of a buffer that count, as [B,G,n,d].
    fn stored(&self, buffer: &[f64]) -> String {
        let (groups, width) = (self.layer.groups, self.layer.width);
        let rows = buffer.chunks_exact(self.capacity * width).flat_map(|group| &group[..self.length * width]);
        Array { shape: vec![self.lanes, groups, self.length, width], data: rows.copied().collect() }.write()
    }
}

// ---- The conversation

const HELLO: &str = r#"{"protocol":1,"declaration":{"name":"example layer in Rust","levels":["layer"],
"features":["chunks","gqa","truncate","fork"],"rows_per_append":"any"}}"#;

#[derive(Default)]
struct Driver {
    handles: usize,
    layers: HashMap<usize, Rc<Layer>>,
    caches: HashMap<usize, Cache>,
}

impl Driver {
    fn layer(&self, message: &Json) -> Outcome<Rc<Layer>> {
        self.layers.get(&message.get("layer")?.size()?).cloned().ok_or_else(|| error("there is no such layer"))
    }

    fn cache(&mut self, message: &Json) -> Outcome<&mut Cache> {
        self.caches.get_mut(&message.get("cache")?.size()?).ok_or_else(|| error("there is no such cache"))
    }

    /// The answer to whatever builds something; the handle is the number of things built so far.
    fn built(&mut self, layer: Option<Layer>, cache: Option<Cache>) -> String {
        self.handles += 1;
        self.layers.extend(layer.map(|layer| (self.handles, Rc::new(layer))));
        self.caches.extend(cache.map(|cache| (self.handles, cache)));
        format!(r#"{{"handle":{}}}"#, self.handles)
    }

    fn answer(&mut self, message: &Json) -> Outcome<String> {
        match message.get("method")?.text()? {
            "hello" => return Ok(HELLO.replace('\n', "")),
            "echo" => {
                let values = Array::read(message.get("values")?)?;
                let bits: Vec<String> = values.data.iter().map(|x| format!("\"{:016x}\"", x.to_bits())).collect();
                return Ok(format!(r#"{{"values":{},"bits":[{}]}}"#, values.write(), bits.join(",")));
            }
            "build_layer" => return Ok(self.built(Some(Layer::read(message)?), None)),
            "build_cache" => {
                let (lanes, capacity) = (message.get("batch_size")?.size()?, message.get("capacity")?.size()?);
                let cache = Cache::build(&self.layer(message)?, lanes, capacity)?;
                return Ok(self.built(None, Some(cache)));
            }
            "append" => {
                let (layer, rows) = (self.layer(message)?, Array::read(message.get("rows")?)?);
                return Ok(format!(r#"{{"output":{}}}"#, self.cache(message)?.append(&layer, &rows)?.write()));
            }
            "observe" => {
                let cache = self.cache(message)?;
                let (keys, values) = (cache.stored(&cache.keys), cache.stored(&cache.values));
                let sizes = format!(r#""length":{},"capacity":{}"#, cache.length, cache.capacity);
                return Ok(format!(r#"{{{sizes},"keys":{keys},"values":{values}}}"#));
            }
            "fork" => {
                let cache = self.cache(message)?.clone();
                return Ok(self.built(None, Some(cache)));
            }
            "reset" => self.cache(message)?.length = 0,
            "truncate" => {
                let (cache, length) = (self.cache(message)?, message.get("length")?.float()?);
                refuse("invalid_length", length < 0.0 || length > cache.length as f64)?;
                cache.length = length as usize;
            }
            "drop" => {
                for handle in message.get("handles")?.list(Json::size)? {
                    self.layers.remove(&handle);
                    self.caches.remove(&handle);
                }
            }
            "bye" => {}
            other => return Err(error(&format!("there is no request {other}"))),
        }
        Ok("null".into())
    }
}

fn main() {
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message = Parser(line.as_bytes()).value().unwrap_or(Json::Null);
        let reply = driver.answer(&message).map_or_else(|wrong| wrong, |result| format!(r#""result":{result}"#));
        let seq = message.get("seq").and_then(Json::size).unwrap_or(0);
        let mut out = std::io::stdout().lock();
        let sent = writeln!(out, r#"{{"seq":{seq},{reply}}}"#).and_then(|()| out.flush());
        if sent.is_err() || message.get("method").and_then(Json::text) == Ok("bye") {
            return;
        }
    }
}
