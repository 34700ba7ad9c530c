/* A KV cache of one attention layer, judged over a pipe.
 *
 *     cc -O2 -o driver driver.c -lm && kv-conformance check 'cmd:./driver'
 *
 * `--fault NAME` plants one mistake: position-from-one, reset-keeps-length, write-first, stale-weights, no-scale.
 */
#include "json.h"

#include <stdint.h>

enum { QUERY, KEY, VALUE, OUTPUT, PARAMETERS };
static const char *const PARAMETER_NAMES[] = {"query", "key", "value", "output"};

typedef struct {
    long identity, revision, owners; /* the identity never comes back, not even after a parameter is freed */
    size_t count;
    double *data;
} parameter;

typedef struct {
    long model_width, heads, kv_heads, head_width, max_positions;
    double base;
    int adjacent;
} config;

typedef struct {
    config config;
    parameter *parameters[PARAMETERS];
} layer;

typedef struct {
    config config;
    long batch, capacity, length;
    long identity[PARAMETERS], revision[PARAMETERS];
    double *keys, *values; /* [batch, kv_heads, capacity, head_width] */
} cache;

typedef struct {
    size_t rank, count;
    long shape[8];
    double *data;
} array;

static const char *fault = "";

static int planted(const char *name) { return strcmp(fault, name) == 0; }

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- arrays of the protocol */

static array array_of(const json *given) {
    array read = {0};
    const json *shape = need(given, "shape"), *data = need(given, "data");
    if (shape->count > 8) fail("at most 8 axes");
    size_t wanted = 1;
    for (json *axis = shape->first; axis; axis = axis->next) {
        read.shape[read.rank] = (long)number_of(axis);
        wanted *= (size_t)read.shape[read.rank++];
    }
    if (wanted != data->count) fail("shape and data differ");
    read.count = data->count;
    read.data = scratch(read.count * sizeof(double));
    double *to = read.data;
    for (json *number = data->first; number; number = number->next) *to++ = number_of(number);
    return read;
}

static void put_array(const double *data, int rank, const long *shape) {
    size_t count = 1;
    put("{\"dtype\":\"float64\",\"shape\":[");
    for (int i = 0; i < rank; i++) {
        put(i ? ",%ld" : "%ld", shape[i]);
        count *= (size_t)shape[i];
    }
    put("],\"data\":[");
    for (size_t i = 0; i < count; i++) {
        if (i) put(",");
        put_number(data[i]);
    }
    put("]}");
}

static void put_array3(const char *name, const double *data, long a, long b, long c) {
    put(",\"%s\":", name);
    put_array(data, 3, (long[]){a, b, c});
}

static void put_array4(const char *name, const double *data, long a, long b, long c, long d) {
    put(",\"%s\":", name);
    put_array(data, 4, (long[]){a, b, c, d});
}

/* ---- refusals: the reply is written at once, and the request ends */

static void begin_refusal(const char *kind) {
    out_length = 0;
    put("{\"seq\":%ld,\"rejected\":{\"kind\":\"%s\"", current_seq, kind);
}

static _Noreturn void end_refusal(void) {
    put("}}");
    longjmp(request_failed, 1);
}

static _Noreturn void refuse(const char *kind, long expected, long found) {
    begin_refusal(kind);
    put(",\"message\":\"expected %ld, found %ld\",\"expected\":%ld,\"found\":%ld", expected, found, expected, found);
    end_refusal();
}

static void check_finite(const double *numbers, size_t count, const char *stage) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i])) {
            begin_refusal("non_finite");
            put(",\"message\":\"%s is not finite\",\"stage\":\"%s\",\"index\":%zu,\"value\":", stage, stage, i);
            put_number(numbers[i]);
            end_refusal();
        }
}

/* ---- the mathematics of one row */

static void project(const double *row, long in, const parameter *weights, long width, double *result) {
    if (weights->count != (size_t)(in * width)) fail("a parameter does not fit the layer");
    for (long i = 0; i < in; i++)
        for (long j = 0; j < width; j++) result[j] += row[i] * weights->data[i * width + j];
}

static void rotate(const double *heads, long count, long position, const config *c, double *result) {
    long d = c->head_width;
    memcpy(result, heads, (size_t)(count * d) * sizeof(double));
    for (long head = 0; head < count; head++)
        for (long i = 0; i < d / 2; i++) {
            double angle = (double)position * pow(c->base, -2.0 * (double)i / (double)d);
            long left = head * d + (c->adjacent ? 2 * i : i), right = left + (c->adjacent ? 1 : d / 2);
            result[left] = heads[left] * cos(angle) - heads[right] * sin(angle);
            result[right] = heads[left] * sin(angle) + heads[right] * cos(angle);
        }
}

static double score(const double *query, const double *key, long d) {
    double dot = 0.0;
    for (long i = 0; i < d; i++) dot += query[i] * key[i];
    return planted("no-scale") ? dot : dot * (1.0 / sqrt((double)d));
}

static void softmax(double *scores, long count) {
    double largest = scores[0], total = 0.0;
    for (long t = 1; t < count; t++) largest = fmax(largest, scores[t]);
    for (long t = 0; t < count; t++) total += scores[t] = exp(scores[t] - largest);
    for (long t = 0; t < count; t++) scores[t] /= total;
}

static void mix(double *mixed, double weight, const double *value, long d) {
    for (long i = 0; i < d; i++) mixed[i] += weight * value[i];
}

/* ---- layers */

static config config_of(const json *given) {
    const json *rope = need(given, "rope");
    return (config){
        .model_width = (long)number_of(need(given, "model_width")),
        .heads = (long)number_of(need(given, "heads")),
        .kv_heads = (long)number_of(need(given, "kv_heads")),
        .head_width = (long)number_of(need(given, "head_width")),
        .max_positions = (long)number_of(need(rope, "max_positions")),
        .base = number_of(need(rope, "base")),
        .adjacent = strcmp(text_of(need(rope, "pairing")), "adjacent") == 0,
    };
}

static parameter *new_parameter(const double *data, size_t count) {
    static long identities;
    parameter *fresh = calloc(1, sizeof *fresh);
    double *copy = malloc(count * sizeof(double) + 1);
    if (!fresh || !copy) fail("no memory for a parameter");
    memcpy(copy, data, count * sizeof(double));
    *fresh = (parameter){.identity = ++identities, .owners = 1, .count = count, .data = copy};
    return fresh;
}

static layer *build_layer(const json *request) {
    layer *fresh = calloc(1, sizeof *fresh);
    if (!fresh) fail("no memory for a layer");
    fresh->config = config_of(need(request, "config"));
    for (int i = 0; i < PARAMETERS; i++) {
        array given = array_of(need(need(request, "parameters"), PARAMETER_NAMES[i]));
        fresh->parameters[i] = new_parameter(given.data, given.count);
    }
    return fresh;
}

static layer *rewire(const layer *from, const json *request) {
    layer *fresh = calloc(1, sizeof *fresh);
    if (!fresh) fail("no memory for a layer");
    const json *changed = field(request, "config");
    fresh->config = changed ? config_of(changed) : from->config;
    for (int i = 0; i < PARAMETERS; i++) {
        parameter *own = from->parameters[i];
        int rebuilt = 0;
        for (json *name = need(request, "fresh")->first; name; name = name->next)
            rebuilt |= strcmp(text_of(name), PARAMETER_NAMES[i]) == 0;
        if (rebuilt) own = new_parameter(own->data, own->count);
        else own->owners++;
        fresh->parameters[i] = own;
    }
    return fresh;
}

static void update_parameters(layer *changed, const json *request) {
    for (json *given = need(request, "parameters")->first; given; given = given->next)
        for (int i = 0; i < PARAMETERS; i++)
            if (strcmp(given->name, PARAMETER_NAMES[i]) == 0) {
                array fresh = array_of(given);
                if (fresh.count != changed->parameters[i]->count) fail("a parameter of another size");
                memcpy(changed->parameters[i]->data, fresh.data, fresh.count * sizeof(double));
                changed->parameters[i]->revision++;
            }
}

static void free_layer(layer *unused) {
    for (int i = 0; i < PARAMETERS; i++)
        if (--unused->parameters[i]->owners == 0) {
            free(unused->parameters[i]->data);
            free(unused->parameters[i]);
        }
    free(unused);
}

/* ---- the cache */

static size_t elements_of(const cache *c) {
    return (size_t)c->batch * (size_t)c->config.kv_heads * (size_t)c->capacity * (size_t)c->config.head_width;
}

static cache *build_cache(const layer *owner, const json *request) {
    double batch = number_of(need(request, "batch_size")), capacity = number_of(need(request, "capacity"));
    const config *c = &owner->config;
    if (batch < 1) refuse("zero_batch_size", 1, (long)batch);
    if (capacity < 1) refuse("zero_capacity", 1, (long)capacity);
    if (capacity > (double)c->max_positions) refuse("capacity_exceeds_positions", c->max_positions, (long)capacity);
    unsigned long long elements = (unsigned long long)batch;
    const unsigned long long factors[] = {
        (unsigned long long)c->kv_heads, (unsigned long long)capacity, (unsigned long long)c->head_width};
    for (int i = 0; i < 3; i++) {
        if (factors[i] && elements > (unsigned long long)INT64_MAX / factors[i]) {
            begin_refusal("element_count_overflow");
            put(",\"message\":\"more than 2^63 - 1 elements\"");
            end_refusal();
        }
        elements *= factors[i];
    }
    cache *fresh = calloc(1, sizeof *fresh);
    if (!fresh) fail("no memory for a cache");
    *fresh = (cache){.config = *c, .batch = (long)batch, .capacity = (long)capacity};
    fresh->keys = calloc(elements, sizeof(double));
    fresh->values = fresh->keys ? calloc(elements, sizeof(double)) : NULL;
    if (!fresh->values) {
        free(fresh->keys);
        free(fresh);
        begin_refusal("allocation_failed");
        put(",\"message\":\"no memory for the storage\",\"found\":%llu", elements);
        end_refusal();
    }
    for (int i = 0; i < PARAMETERS; i++) {
        fresh->identity[i] = owner->parameters[i]->identity;
        fresh->revision[i] = owner->parameters[i]->revision;
    }
    return fresh;
}

static double *row_at(const cache *c, double *buffer, long lane, long group, long slot) {
    return buffer + ((lane * c->config.kv_heads + group) * c->capacity + slot) * c->config.head_width;
}

static void check_call(const layer *l, const cache *c, const array *rows) {
    const config *own = &l->config, *tied = &c->config;
    if (rows->rank != 3) refuse("input_rank", 3, (long)rows->rank);
    if (rows->shape[1] != 1) refuse("single_token_required", 1, rows->shape[1]);
    if (rows->shape[0] != c->batch) refuse("input_batch_mismatch", c->batch, rows->shape[0]);
    if (rows->shape[2] != own->model_width) refuse("input_width_mismatch", own->model_width, rows->shape[2]);
    if (own->model_width != tied->model_width)
        refuse("cache_model_width_mismatch", tied->model_width, own->model_width);
    if (own->heads != tied->heads) refuse("cache_head_count_mismatch", tied->heads, own->heads);
    if (own->kv_heads != tied->kv_heads) refuse("cache_head_count_mismatch", tied->kv_heads, own->kv_heads);
    if (own->head_width != tied->head_width) refuse("cache_head_width_mismatch", tied->head_width, own->head_width);
    for (int i = 0; i < PARAMETERS; i++)
        if (l->parameters[i]->identity != c->identity[i]) {
            begin_refusal("cache_layer_mismatch");
            end_refusal();
        }
    for (int i = 0; i < PARAMETERS; i++)
        if (l->parameters[i]->revision != c->revision[i] && !planted("stale-weights")) {
            begin_refusal("cache_layer_revision_mismatch");
            put(",\"parameter\":%d,\"expected\":%ld,\"found\":%ld", i, c->revision[i], l->parameters[i]->revision);
            end_refusal();
        }
    if (own->max_positions != tied->max_positions)
        refuse("cache_rope_mismatch", tied->max_positions, own->max_positions);
    if (bits_of(own->base) != bits_of(tied->base) || own->adjacent != tied->adjacent) {
        begin_refusal("cache_rope_mismatch");
        put(",\"expected\":\"%016llx\",\"found\":\"%016llx\"", (unsigned long long)bits_of(tied->base),
            (unsigned long long)bits_of(own->base));
        end_refusal();
    }
    if (c->length >= c->capacity) refuse("full", c->capacity, c->length + 1);
}

/* Everything that a step has computed; nothing has changed yet. */
typedef struct {
    double *query, *key, *value, *rotated_query, *rotated_key, *weights, *heads, *output;
} step;

static double *doubles(long count) { return scratch((size_t)count * sizeof(double)); }

static void write_row(cache *c, const step *s) {
    long d = c->config.head_width, groups = c->config.kv_heads;
    for (long b = 0; b < c->batch; b++)
        for (long g = 0; g < groups; g++) {
            memcpy(row_at(c, c->keys, b, g, c->length), s->rotated_key + (b * groups + g) * d, (size_t)d * sizeof(double));
            memcpy(row_at(c, c->values, b, g, c->length), s->value + (b * groups + g) * d, (size_t)d * sizeof(double));
        }
}

static void attend(const cache *c, const step *s, long lane, long head, long length) {
    long d = c->config.head_width, groups = c->config.kv_heads, heads = c->config.heads;
    long group = head / (heads / groups), own = (lane * groups + group) * d;
    const double *query = s->rotated_query + (lane * heads + head) * d;
    double *weights = s->weights + (lane * heads + head) * length;
    for (long t = 0; t < length; t++)
        weights[t] = score(query, t < c->length ? row_at(c, c->keys, lane, group, t) : s->rotated_key + own, d);
    check_finite(weights, (size_t)length, "score");
    softmax(weights, length);
    for (long t = 0; t < length; t++)
        mix(s->heads + (lane * heads + head) * d, weights[t],
            t < c->length ? row_at(c, c->values, lane, group, t) : s->value + own, d);
}

static step prepare(const layer *l, cache *c, const array *rows) {
    const config *g = &l->config;
    long B = c->batch, D = g->model_width, H = g->heads, G = g->kv_heads, d = g->head_width;
    long length = c->length + 1, position = c->length + (planted("position-from-one") ? 1 : 0);
    step s = {doubles(B * H * d), doubles(B * G * d),      doubles(B * G * d), doubles(B * H * d),
              doubles(B * G * d), doubles(B * H * length), doubles(B * H * d), doubles(B * D)};
    for (long b = 0; b < B; b++) project(rows->data + b * D, D, l->parameters[QUERY], H * d, s.query + b * H * d);
    check_finite(s.query, (size_t)(B * H * d), "query");
    for (long b = 0; b < B; b++) project(rows->data + b * D, D, l->parameters[KEY], G * d, s.key + b * G * d);
    check_finite(s.key, (size_t)(B * G * d), "key");
    for (long b = 0; b < B; b++) project(rows->data + b * D, D, l->parameters[VALUE], G * d, s.value + b * G * d);
    check_finite(s.value, (size_t)(B * G * d), "value");
    rotate(s.query, B * H, position, g, s.rotated_query);
    check_finite(s.rotated_query, (size_t)(B * H * d), "rotated_query");
    rotate(s.key, B * G, position, g, s.rotated_key);
    check_finite(s.rotated_key, (size_t)(B * G * d), "rotated_key");
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++) attend(c, &s, b, h, length);
    check_finite(s.heads, (size_t)(B * H * d), "heads");
    if (planted("write-first")) write_row(c, &s);
    /* A lane's heads lie side by side, so they are merged already. */
    for (long b = 0; b < B; b++) project(s.heads + b * H * d, H * d, l->parameters[OUTPUT], D, s.output + b * D);
    check_finite(s.output, (size_t)(B * D), "output");
    return s;
}

static void append(const layer *l, cache *c, const json *request) {
    array rows = array_of(need(request, "rows"));
    check_call(l, c, &rows);
    step s = prepare(l, c, &rows);
    long B = c->batch, D = c->config.model_width, H = c->config.heads, G = c->config.kv_heads;
    long d = c->config.head_width, position = c->length;
    write_row(c, &s);
    c->length++;
    put("{\"length\":%ld", c->length);
    put(",\"work\":{\"position\":%ld,\"full_prefix_rows\":%ld,\"incremental_rows\":1,\"reused_rows\":%ld}", position,
        position + 1, position);
    put_array3("output", s.output, B, 1, D);
    put_array3("merged", s.heads, B, 1, H * d);
    put_array4("query", s.query, B, H, 1, d);
    put_array4("key", s.key, B, G, 1, d);
    put_array4("value", s.value, B, G, 1, d);
    put_array4("rotated_query", s.rotated_query, B, H, 1, d);
    put_array4("rotated_key", s.rotated_key, B, G, 1, d);
    put_array4("weights", s.weights, B, H, 1, c->length);
    put_array4("heads", s.heads, B, H, 1, d);
    put("}");
}

/* The uncached path: all rows of the prefix, no cache anywhere. */
static void full_prefix(const layer *l, const json *request) {
    const config *g = &l->config;
    array rows = array_of(need(request, "rows"));
    if (rows.rank != 3) refuse("input_rank", 3, (long)rows.rank);
    long B = rows.shape[0], T = rows.shape[1], D = g->model_width, H = g->heads, G = g->kv_heads, d = g->head_width;
    if (rows.shape[2] != D) refuse("input_width_mismatch", D, rows.shape[2]);
    double *output = doubles(B * T * D);
    for (long b = 0; b < B; b++) {
        double *query = doubles(T * H * d), *key = doubles(T * G * d), *value = doubles(T * G * d);
        double *turned_query = doubles(T * H * d), *turned_key = doubles(T * G * d), *merged = doubles(T * H * d);
        for (long t = 0; t < T; t++) {
            const double *row = rows.data + (b * T + t) * D;
            project(row, D, l->parameters[QUERY], H * d, query + t * H * d);
            project(row, D, l->parameters[KEY], G * d, key + t * G * d);
            project(row, D, l->parameters[VALUE], G * d, value + t * G * d);
            rotate(query + t * H * d, H, t, g, turned_query + t * H * d);
            rotate(key + t * G * d, G, t, g, turned_key + t * G * d);
        }
        check_finite(value, (size_t)(T * G * d), "value");
        for (long t = 0; t < T; t++) {
            for (long h = 0; h < H; h++) {
                long group = h / (H / G);
                double *weights = doubles(t + 1);
                for (long u = 0; u <= t; u++)
                    weights[u] = score(turned_query + (t * H + h) * d, turned_key + (u * G + group) * d, d);
                check_finite(weights, (size_t)(t + 1), "score");
                softmax(weights, t + 1);
                for (long u = 0; u <= t; u++) mix(merged + (t * H + h) * d, weights[u], value + (u * G + group) * d, d);
            }
            project(merged + t * H * d, H * d, l->parameters[OUTPUT], D, output + (b * T + t) * D);
        }
    }
    check_finite(output, (size_t)(B * T * D), "output");
    put("{\"output\":");
    put_array(output, 3, (long[]){B, T, D});
    put("}");
}

static void put_prefix(const char *name, const cache *c, double *buffer) {
    long d = c->config.head_width, groups = c->config.kv_heads;
    double *prefix = doubles(c->batch * groups * c->length * d), *to = prefix;
    for (long b = 0; b < c->batch; b++)
        for (long g = 0; g < groups; g++, to += c->length * d)
            memcpy(to, row_at(c, buffer, b, g, 0), (size_t)(c->length * d) * sizeof(double));
    put(",\"%s\":", name);
    put_array(prefix, 4, (long[]){c->batch, groups, c->length, d});
}

static void put_token(const cache *c, const double *buffer) {
    size_t elements = elements_of(c);
    put("{\"address\":\"%p\",", (const void *)buffer);
    if (elements <= 4096) {
        put("\"data\":");
        put_array(buffer, 4, (long[]){c->batch, c->config.kv_heads, c->capacity, c->config.head_width});
    } else {
        uint64_t digest = 14695981039346656037u; /* FNV-1a */
        for (size_t i = 0; i < elements; i++)
            for (int byte = 0; byte < 64; byte += 8)
                digest = (digest ^ (bits_of(buffer[i]) >> byte & 255)) * 1099511628211u;
        put("\"digest\":\"%016llx\",\"nbytes\":%zu,\"elements\":%zu", (unsigned long long)digest,
            elements * sizeof(double), elements);
    }
    put("}");
}

static void observe(const cache *c) {
    put("{\"length\":%ld,\"capacity\":%ld", c->length, c->capacity);
    put_prefix("keys", c, c->keys);
    put_prefix("values", c, c->values);
    put(",\"storage\":[");
    put_token(c, c->keys);
    put(",");
    put_token(c, c->values);
    put("]}");
}

static void snapshot(const cache *c) {
    size_t start = out_length;
    put_prefix("keys", c, c->keys);
    out[start] = '{'; /* in the place of the comma */
    put_prefix("values", c, c->values);
    put("}");
}

static void poison(cache *c, double value) {
    for (long b = 0; b < c->batch; b++)
        for (long g = 0; g < c->config.kv_heads; g++)
            for (long t = c->length; t < c->capacity; t++)
                for (long i = 0; i < c->config.head_width; i++)
                    row_at(c, c->keys, b, g, t)[i] = row_at(c, c->values, b, g, t)[i] = value;
}

static void overwrite_row(cache *c, const json *request) {
    array fresh = array_of(need(request, "data"));
    size_t index = (size_t)number_of(need(request, "index"));
    if (index > elements_of(c) || fresh.count > elements_of(c) - index) fail("outside the buffer");
    double *buffer = number_of(need(request, "buffer")) != 0 ? c->values : c->keys;
    memcpy(buffer + index, fresh.data, fresh.count * sizeof(double));
}

/* ---- the protocol */

typedef enum { GONE, LAYER, CACHE } sort;
static struct {
    sort sort;
    void *object;
} *objects;
static long objects_count;

static void put_handle(sort sort, void *object) {
    void *grown = realloc(objects, (size_t)(objects_count + 1) * sizeof *objects);
    if (!grown) fail("no memory for a handle");
    objects = grown;
    objects[objects_count].sort = sort;
    objects[objects_count++].object = object;
    put("{\"handle\":%ld}", objects_count - 1);
}

static void *object_of(const json *request, const char *name, sort wanted) {
    double number = number_of(need(request, name));
    if (!(number >= 0 && number < (double)objects_count) || objects[(long)number].sort != wanted)
        fail("a handle that does not stand");
    return objects[(long)number].object;
}

static void drop(const json *request) {
    for (json *handle = need(request, "handles")->first; handle; handle = handle->next) {
        double number = number_of(handle);
        if (!(number >= 0 && number < (double)objects_count)) continue;
        long i = (long)number;
        if (objects[i].sort == LAYER) free_layer(objects[i].object);
        if (objects[i].sort == CACHE) {
            cache *unused = objects[i].object;
            free(unused->keys);
            free(unused->values);
            free(unused);
        }
        objects[i].sort = GONE;
    }
}

static void echo(const json *request) {
    array values = array_of(need(request, "values"));
    put("{\"values\":");
    put_array(values.data, (int)values.rank, values.shape);
    put(",\"bits\":[");
    for (size_t i = 0; i < values.count; i++)
        put(i ? ",\"%016llx\"" : "\"%016llx\"", (unsigned long long)bits_of(values.data[i]));
    put("]}");
}

static void hello(void) {
    put("{\"protocol\":1,\"numbers\":\"decimal\",\"offers\":[\"overwrite_row\"],\"declaration\":{\"name\":\"c example\",\"version\":\"1\","
        "\"levels\":[\"layer\"],\"dtypes\":[\"float64\"],\"features\":[\"gqa\",\"full_prefix\",\"update_parameters\","
        "\"rewire\",\"poison\",\"evidence\",\"work\",\"storage\",\"snapshot\"],\"keys\":\"rotated\","
        "\"heads\":\"grouped\",\"rows_per_append\":\"one\",\"capacity\":\"exact\"}}");
}

static void answer(const json *request) {
    const char *method = text_of(need(request, "method"));
    size_t start = out_length;
#define ASKED(name) (strcmp(method, name) == 0)
#define THE_LAYER object_of(request, "layer", LAYER)
#define THE_CACHE object_of(request, "cache", CACHE)
    if (ASKED("hello")) hello();
    else if (ASKED("echo")) echo(request);
    else if (ASKED("build_layer")) put_handle(LAYER, build_layer(request));
    else if (ASKED("build_cache")) put_handle(CACHE, build_cache(THE_LAYER, request));
    else if (ASKED("rewire")) put_handle(LAYER, rewire(THE_LAYER, request));
    else if (ASKED("append")) append(THE_LAYER, THE_CACHE, request);
    else if (ASKED("full_prefix")) full_prefix(THE_LAYER, request);
    else if (ASKED("observe")) observe(THE_CACHE);
    else if (ASKED("snapshot")) snapshot(THE_CACHE);
    else if (ASKED("update_parameters")) update_parameters(THE_LAYER, request);
    else if (ASKED("poison")) poison(THE_CACHE, number_of(need(request, "value")));
    else if (ASKED("overwrite_row")) overwrite_row(THE_CACHE, request);
    else if (ASKED("reset")) ((cache *)THE_CACHE)->length *= planted("reset-keeps-length");
    else if (ASKED("drop")) drop(request);
    else if (!ASKED("bye")) fail("there is no such request");
    if (out_length == start) put("null");
}

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "--fault") == 0) fault = arguments[2];
    char *line = NULL;
    size_t size = 0;
    volatile int last = 0; /* kept across the longjmp */
    put("ready");
    while (!last && getline(&line, &size, stdin) > 0) {
        current_seq = 0;
        if (setjmp(request_failed) == 0) {
            at = line;
            json *request = read_value(0);
            current_seq = (long)number_of(need(request, "seq"));
            last = strcmp(text_of(need(request, "method")), "bye") == 0;
            out_length = 0;
            put("{\"seq\":%ld,\"result\":", current_seq);
            answer(request);
            put("}");
        }
        fwrite(out, 1, out_length, stdout);
        putchar('\n');
        fflush(stdout);
        scratch_end();
    }
    free(line);
    return 0;
}
