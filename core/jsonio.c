#include "core/jsonio.h"

#include "core/file.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// jansson stops right behind the second key of a pair, but its message leaves out keys that are
// long; the text itself has it.
static const char *key_before(const char *text, size_t end, char *buf, size_t size) {
    if (end < 2 || text[end - 1] != '"')
        return NULL;
    for (size_t i = end - 1; i-- > 0;) {
        size_t slashes = 0;
        while (text[i] == '"' && slashes < i && text[i - 1 - slashes] == '\\')
            slashes++;
        if (text[i] == '"' && slashes % 2 == 0)
            return text_escape(text + i + 1, end - i - 2, buf, size);
    }
    return NULL;
}

json_t *jsonio_parse(const char *text, size_t n, const char *file, const char *what, err *e) {
    json_error_t je;
    size_t blank = strspn(text, " \t\r\n");
    const char *a = what ? what : "", *b = what ? " " : "";
    if (blank >= n) {
        err_set(e, ERR_INPUT, "%s: %s%sis empty, need JSON", text_show(file), a, b);
        return NULL;
    }
    static const char lfs[] = "version https://git-lfs";
    if (n >= sizeof lfs && memcmp(text, lfs, sizeof lfs - 1) == 0) { // fault B3
        err_set(e, ERR_INPUT,
                "%s: is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder",
                text_show(file));
        return NULL;
    }
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (v)
        return v;
    char key[256], why[sizeof je.text * 2];
    const char *dup = NULL;
    // Where jansson runs out of memory between two tokens it leaves no message at all.
    if (json_error_code(&je) == json_error_out_of_memory || je.text[0] == 0) {
        err_set(e, ERR_NOMEM, "%s: out of memory while reading %s", text_show(file),
                what ? what : "its JSON");
        return NULL;
    }
    if (json_error_code(&je) == json_error_duplicate_key && je.position > 0 &&
        (size_t)je.position <= n)
        dup = key_before(text, (size_t)je.position, key, sizeof key);
    // "line 7" of a file is not told to have a line 1.
    char line[32] = "";
    if (!what || strncmp(what, "line ", 5) != 0)
        snprintf(line, sizeof line, "line %d, ", je.line);
    if (dup)
        err_set(e, ERR_INPUT, "%s: %s%sholds the key \"%s\" twice (%scolumn %d)", text_show(file),
                a, b, dup, line, je.column);
    else
        err_set(e, ERR_INPUT, "%s: %s%sis not JSON at %scolumn %d (byte %d): %s", text_show(file),
                a, b, line, je.column, je.position,
                text_escape(je.text, strlen(je.text), why, sizeof why));
    return NULL;
}

json_t *jsonio_read(const char *path, size_t max, err *e) {
    size_t n = 0;
    char *text = file_read(path, max, &n, e);
    if (!text)
        return NULL;
    json_t *v = jsonio_parse(text, n, path, NULL, e);
    free(text);
    return v;
}

static bool word_char(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '+' || c == '.';
}

static void mark_infinities(char *text, size_t n) {
    static const char word[] = "Infinity", mark[] = "\"" JSONIO_INFINITY "\"";
    _Static_assert(sizeof word == sizeof mark, "columns must not move");
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && text[i] == 'I' && n - i >= sizeof word - 1 &&
                   memcmp(text + i, word, sizeof word - 1) == 0 &&
                   !(i > 0 && word_char(text[i - 1])) && !word_char(text[i + sizeof word - 1])) {
            memcpy(text + i, mark, sizeof mark - 1);
            i += sizeof mark - 2;
        }
    }
}

json_t *jsonio_read_infinity(const char *path, size_t max, err *e) {
    size_t n = 0;
    char *text = file_read(path, max, &n, e);
    if (!text)
        return NULL;
    mark_infinities(text, n);
    json_t *v = jsonio_parse(text, n, path, NULL, e);
    free(text);
    return v;
}

const char *jsonio_kind(const json_t *v) {
    if (!v)
        return "absent";
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

char *jsonio_show(const json_t *v, char *buf, size_t size) {
    char part[96];
    if (json_is_string(v) && strcmp(json_string_value(v), JSONIO_INFINITY) == 0)
        snprintf(buf, size, "Infinity");
    else if (json_is_string(v))
        snprintf(buf, size, "\"%s\"",
                 text_escape(json_string_value(v), json_string_length(v), part, sizeof part));
    else if (json_is_integer(v))
        snprintf(buf, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v)) {
        double x = json_real_value(v), back = 0;
        text_real(x, 15, buf, size); // 0.1 and not 0.10000000000000001, where that says it all
        if (!text_number(buf, &back) || back != x)
            text_real(x, 17, buf, size);
    } else if (json_is_boolean(v))
        snprintf(buf, size, "%s", json_is_true(v) ? "true" : "false");
    else
        snprintf(buf, size, "%s", jsonio_kind(v));
    return buf;
}
