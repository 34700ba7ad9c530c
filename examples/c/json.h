/* A small JSON reader and writer: one value a line, memory that lives as long as one request. */
#ifndef JSON_H
#define JSON_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { JSON_NULL, JSON_TRUE, JSON_FALSE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    double number;
    const char *text;          /* of a text */
    const char *name;          /* where this value is a field of an object */
    struct json *first, *next; /* children, and the next child of the same parent */
    size_t count;              /* number of children */
} json;

/* ---- the reply under construction, and the way out when a request fails */

static char *out;
static size_t out_length, out_size;
static jmp_buf request_failed;

static void put(const char *format, ...) {
    for (;;) {
        va_list arguments;
        va_start(arguments, format);
        int wanted = vsnprintf(out + out_length, out_size - out_length, format, arguments);
        va_end(arguments);
        if (wanted < 0) exit(3);
        if (out_length + (size_t)wanted < out_size) {
            out_length += (size_t)wanted;
            return;
        }
        out_size = out_size * 2 + (size_t)wanted + 256;
        out = realloc(out, out_size);
        if (!out) exit(3);
    }
}

/* 17 significant digits bring every double back; what JSON cannot say goes as a text. */
static void put_number(double value) {
    if (isnan(value)) put("\"nan\"");
    else if (isinf(value)) put(value > 0 ? "\"inf\"" : "\"-inf\"");
    else put("%.17g", value);
}

static long current_seq;

static _Noreturn void fail(const char *message) {
    out_length = 0;
    put("{\"seq\":%ld,\"error\":{\"type\":\"Error\",\"message\":\"%s\"}}", current_seq, message);
    longjmp(request_failed, 1);
}

/* ---- memory of one request, zeroed, freed all at once */

typedef struct block {
    struct block *next;
} block;

static block *blocks;

static void *scratch(size_t bytes) {
    block *fresh = calloc(1, sizeof(block) + bytes + 16);
    if (!fresh) fail("no memory for the request");
    fresh->next = blocks;
    blocks = fresh;
    return fresh + 1;
}

static void scratch_end(void) {
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

/* ---- reading */

static const char *at;

static void space(void) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
}

static char *put_utf8(char *to, unsigned code) {
    if (code < 0x80) *to++ = (char)code;
    else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3F));
    } else {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    }
    return to;
}

static const char *read_text(void) {
    const char *start = ++at;
    while (*at && *at != '"') at += (*at == '\\' && at[1]) ? 2 : 1;
    if (*at != '"') fail("a text without end");
    char *text = scratch((size_t)(at - start) + 1), *to = text;
    for (const char *from = start; from < at; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        switch (*++from) {
        case 'n': *to++ = '\n'; break;
        case 't': *to++ = '\t'; break;
        case 'r': *to++ = '\r'; break;
        case 'b': *to++ = '\b'; break;
        case 'f': *to++ = '\f'; break;
        case 'u': {
            unsigned code = 0;
            if (at - from < 5 || sscanf(from + 1, "%4x", &code) != 1) fail("a wrong \\\\u escape");
            to = put_utf8(to, code);
            from += 4;
            break;
        }
        default: *to++ = *from;
        }
    }
    at++;
    return text;
}

static json *read_value(int depth);

static void read_children(json *parent, char end, int depth) {
    json **link = &parent->first;
    at++;
    for (space(); *at != end; space()) {
        const char *name = NULL;
        if (parent->kind == JSON_OBJECT) {
            if (*at != '"') fail("a field without a name");
            name = read_text();
            space();
            if (*at++ != ':') fail("a field without a colon");
        }
        json *child = read_value(depth + 1);
        child->name = name;
        *link = child;
        link = &child->next;
        parent->count++;
        space();
        if (*at == ',') at++;
        else if (*at != end) fail("a list or an object without end");
    }
    at++;
}

static json *read_value(int depth) {
    if (depth > 32) fail("nested too deeply");
    json *value = scratch(sizeof *value);
    space();
    if (*at == '{') {
        value->kind = JSON_OBJECT;
        read_children(value, '}', depth);
    } else if (*at == '[') {
        value->kind = JSON_LIST;
        read_children(value, ']', depth);
    } else if (*at == '"') {
        value->kind = JSON_TEXT;
        value->text = read_text();
    } else if (strncmp(at, "true", 4) == 0) {
        value->kind = JSON_TRUE;
        at += 4;
    } else if (strncmp(at, "false", 5) == 0) {
        value->kind = JSON_FALSE;
        at += 5;
    } else if (strncmp(at, "null", 4) == 0) {
        value->kind = JSON_NULL;
        at += 4;
    } else {
        char *end;
        value->kind = JSON_NUMBER;
        value->number = strtod(at, &end);
        if (end == at) fail("no JSON value");
        at = end;
    }
    return value;
}

/* ---- looking into a value */

static json *field(const json *object, const char *name) {
    if (object && object->kind == JSON_OBJECT)
        for (json *child = object->first; child; child = child->next)
            if (strcmp(child->name, name) == 0) return child;
    return NULL;
}

static json *need(const json *object, const char *name) {
    json *found = field(object, name);
    if (!found) fail("a field of the request is missing");
    return found;
}

static const char *text_of(const json *value) {
    if (value->kind != JSON_TEXT) fail("a text is wanted");
    return value->text;
}

static double number_of(const json *value) {
    if (value->kind == JSON_NUMBER) return value->number;
    const char *text = text_of(value);
    if (strcmp(text, "nan") == 0) return NAN;
    if (strcmp(text, "inf") == 0) return INFINITY;
    if (strcmp(text, "-inf") == 0) return -INFINITY;
    if (strcmp(text, "-0") == 0) return -0.0;
    fail("a number is wanted");
}

#endif
