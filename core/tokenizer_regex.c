#include "core/mem.h"
#include "core/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The library compiles patterns with Oniguruma in Ruby syntax. What both engines spell alike is
// copied; what they spell alike but mean differently is rewritten (\s, \w, \d, \v, {,n}, scripts);
// what remains is refused, because a pattern that means something else gives other ids in silence.

// White_Space. PCRE2's own \s also holds U+180E, which is no blank since Unicode 6.3.
#define SPACE                                                                                      \
    "\\t-\\r\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{"   \
    "3000}"
#define NOT_SPACE                                                                                  \
    "\\x00-\\x08\\x0E-\\x1F!-\\x84\\x86-\\x9F\\xA1-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{"     \
    "2027}"                                                                                        \
    "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"
// Alphabetic, marks, decimal digits, connecting punctuation; of the other numbers those of Latin-1
// alone, as Oniguruma's table has it. The circled letters are alphabetic symbols.
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\xB2\\xB3\\xB9\\xBC-\\xBE\\x{24B6}-\\x{24E9}"               \
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

typedef struct source {
    const char *s;
    size_t n, i;
    tok_buf *out;
    err *e;
    uint64_t caseless; // bit 0: the group at hand ignores case; one bit for each group around it
    int depth;
    bool newer; // with what newer Unicode versions added
} source;

static bool put(source *r, const char *s) {
    return tok_buf_add(r->out, s, strlen(s), r->e);
}

static bool copy(source *r, size_t n) {
    if (!tok_buf_add(r->out, r->s + r->i, n, r->e))
        return false;
    r->i += n;
    return true;
}

static bool starts(const source *r, const char *what) {
    size_t n = strlen(what);
    return r->n - r->i >= n && !memcmp(r->s + r->i, what, n);
}

static bool refuse(source *r, size_t n) {
    if (n > r->n - r->i)
        n = r->n - r->i;
    return err_set(r->e, ERR_UNSUPPORTED, "pattern \"%s\": \"%s\" is not supported",
                   tok_show(r->s, r->n), tok_show(r->s + r->i, n));
}

// Oniguruma also folds one character to several (ss matches U+00DF), PCRE2 does not: text that
// could be folded so is refused.
static bool foldable(source *r) {
    static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st", NULL};
    if ((unsigned char)r->s[r->i] >= 0x80)
        return true;
    for (int k = 0; pairs[k] && r->n - r->i >= 2; k++)
        if ((r->s[r->i] | 0x20) == pairs[k][0] && (r->s[r->i + 1] | 0x20) == pairs[k][1])
            return true;
    return false;
}

static bool literal(source *r) {
    return (r->caseless & 1) && foldable(r) ? refuse(r, 2) : copy(r, 1);
}

// A general category, or a script (as Script, not the wider Script_Extensions that PCRE2 would
// take), with what newer Unicode versions added to it.
static bool category(source *r, const char *name, bool negative, bool in_class) {
    static const char *const categories =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp "
        "C Cc Cf Cs Co Cn ";
    const char *more = r->newer ? tok_unicode_added(name) : "";
    char text[2048], spaced[48];
    snprintf(spaced, sizeof spaced, " %s ", name);
    // A class of its own where the additions need one. Inside [ ] a negated category stays without
    // them: they cannot be taken out of it there.
    bool own = *more && !in_class;
    snprintf(text, sizeof text, "%s\\%c{%s%s}%s%s", own ? negative ? "[^" : "[" : "",
             negative && !own ? 'P' : 'p', strstr(categories, spaced) ? "" : "sc:", name,
             own || !negative ? more : "", own ? "]" : "");
    return put(r, text);
}

// \w, \W and \b, which is defined by them.
static bool word(source *r, bool in_class) {
    char text[9000], set[2048];
    char c = r->s[r->i + 1];
    snprintf(set, sizeof set, "%s%s%s%s", WORD, r->newer ? tok_unicode_added("L") : "",
             r->newer ? tok_unicode_added("M") : "", r->newer ? tok_unicode_added("Nd") : "");
    if (in_class && c != 'w')
        return refuse(r, 2);
    r->i += 2;
    if (in_class)
        return put(r, set);
    if (c == 'b')
        snprintf(text, sizeof text, "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))", set, set, set, set);
    else
        snprintf(text, sizeof text, c == 'w' ? "[%s]" : "[^%s]", set);
    return put(r, text);
}

// \p{Name}, \P{Name}, \p{^Name}
static bool property(source *r, bool in_class) {
    const char *open = r->s + r->i + 3, *end = r->s + r->n;
    const char *close = r->i + 3 < r->n ? memchr(open, '}', (size_t)(end - open)) : NULL;
    if (!close || r->s[r->i + 2] != '{')
        return refuse(r, 4);
    bool negative = r->s[r->i + 1] == 'P';
    size_t whole = (size_t)(close + 1 - (r->s + r->i));
    if (*open == '^')
        open++, negative = !negative;
    size_t n = (size_t)(close - open);
    char name[40];
    if (n == 0 || n >= sizeof name || memchr(open, 0, n) || memchr(open, ' ', n))
        return refuse(r, whole);
    memcpy(name, open, n);
    name[n] = 0;
    r->i += whole;
    return category(r, name, negative, in_class);
}

static int hex_digits(const source *r, size_t at, int most) {
    int n = 0;
    while (n < most && at + (size_t)n < r->n &&
           strchr("0123456789abcdefABCDEF", r->s[at + (size_t)n]) && r->s[at + (size_t)n])
        n++;
    return n;
}

// \xHH, \x{H...}, \uHHHH
static bool code_point(source *r) {
    bool braced = starts(r, "\\x{");
    int want = r->s[r->i + 1] == 'u' ? 4 : braced ? 8 : 2;
    size_t at = r->i + (braced ? 3 : 2);
    int n = hex_digits(r, at, want);
    if (n == 0 || (r->s[r->i + 1] == 'u' && n != 4) ||
        (braced && (at + (size_t)n >= r->n || r->s[at + (size_t)n] != '}')))
        return refuse(r, 4);
    char text[24];
    snprintf(text, sizeof text, "\\x{%.*s}", n, r->s + at);
    r->i = at + (size_t)n + braced;
    return put(r, text);
}

static bool escape(source *r, bool in_class) {
    if (r->i + 1 >= r->n)
        return refuse(r, 1);
    char c = r->s[r->i + 1];
    const char *text = NULL;
    switch (c) {
    case 'p':
    case 'P':
        return property(r, in_class);
    case 'x':
    case 'u':
        return code_point(r);
    case 's':
        text = in_class ? SPACE : "[" SPACE "]";
        break;
    case 'S':
        text = in_class ? NOT_SPACE : "[^" SPACE "]";
        break;
    case 'w':
    case 'W':
    case 'b':
        return word(r, in_class);
    case 'd':
    case 'D':
        r->i += 2;
        return category(r, "Nd", c == 'D', in_class);
    case 'v':
        text = "\\x0B";
        break;
    case 'A':
    case 'z':
    case 'Z':
        return in_class ? refuse(r, 2) : copy(r, 2);
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'a':
    case 'e':
        return copy(r, 2);
    default:
        if (c > 0x20 && c < 0x7F && !strchr("0123456789", c) &&
            !((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
            return copy(r, 2);
        return refuse(r, 2);
    }
    if (!text)
        return refuse(r, 2);
    r->i += 2;
    return put(r, text);
}

// [...]: nested classes and && are set operations there and plain characters here.
static bool class(source *r) {
    if (!copy(r, starts(r, "[^") ? 2 : 1))
        return false;
    size_t first = r->i;
    while (r->i < r->n && r->s[r->i] != ']') {
        char c = r->s[r->i];
        if (c == '[' || starts(r, "&&"))
            return refuse(r, 2);
        if (!(c == '\\'                                       ? escape(r, true)
              : (r->caseless & 1) && (unsigned char)c >= 0x80 ? refuse(r, 4)
                                                              : copy(r, 1)))
            return false;
    }
    if (r->i == r->n || r->i == first)
        return err_set(r->e, ERR_INPUT, "pattern \"%s\": empty or unclosed [ ]",
                       tok_show(r->s, r->n));
    return copy(r, 1);
}

static bool group(source *r) {
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", NULL};
    if (r->i == 0 && starts(r, "(?i)")) { // elsewhere its reach differs between the engines
        r->caseless = 1;
        return copy(r, 4);
    }
    if (r->depth++ == 60)
        return refuse(r, 4);
    int k = 0;
    while (kinds[k] && !starts(r, kinds[k]))
        k++;
    if (!kinds[k] && (starts(r, "(?") || starts(r, "(*")))
        return refuse(r, 4);
    r->caseless = r->caseless << 1 | (r->caseless & 1) | (kinds[k] && kinds[k][2] == 'i');
    return copy(r, kinds[k] ? strlen(kinds[k]) : 1);
}

static bool group_end(source *r) {
    r->depth--;
    r->caseless >>= 1;
    return copy(r, 1);
}

// {n} {n,} {n,m} {,m}; anything else in braces is text.
static bool braces(source *r) {
    size_t i = r->i + 1, low = i, comma = 0;
    while (i < r->n && ((r->s[i] >= '0' && r->s[i] <= '9') || (r->s[i] == ',' && !comma))) {
        if (r->s[i] == ',')
            comma = i;
        i++;
    }
    bool any = i > low + (comma != 0);
    if (i >= r->n || r->s[i] != '}' || !any)
        return put(r, "\\{") && (r->i++, true);
    // Ruby reads {n,m}+ as a repeat of a repeat and {n}? as an optional group.
    char after = i + 1 < r->n ? r->s[i + 1] : 0;
    if (after == '+' || (after == '?' && !comma))
        return refuse(r, i + 2 - r->i);
    if (comma == low) {
        r->i++;
        return put(r, "{0") && copy(r, i - low + 1);
    }
    return copy(r, i + 1 - r->i);
}

bool tok_regex_translate(const char *regex, size_t n, bool newer, tok_buf *out, err *e) {
    source r = {.s = regex, .n = n, .out = out, .e = e, .newer = newer};
    out->n = 0;
    if (!tok_buf_add(out, "", 0, e))
        return false;
    while (r.i < n) {
        bool ok = true;
        switch (regex[r.i]) {
        case '\\':
            ok = escape(&r, false);
            break;
        case '[':
            ok = class(&r);
            break;
        case '(':
            ok = group(&r);
            break;
        case '{':
            ok = braces(&r);
            break;
        case ')':
            ok = group_end(&r);
            break;
        default:
            ok = literal(&r);
        }
        if (!ok)
            return false;
    }
    return true;
}

static void *hook_alloc(size_t n, void *ctx) {
    (void)ctx;
    return mem_alloc(n, 1, "a pattern", NULL);
}

static void hook_free(void *p, void *ctx) {
    (void)ctx;
    free(p);
}

static pcre2_code *compile(const tok_buf *text, const char *regex, size_t n, err *e) {
    pcre2_general_context *general = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    pcre2_code *made = NULL;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF); // what . and $ look at
        int code = 0;
        PCRE2_SIZE at = 0;
        made = pcre2_compile((PCRE2_SPTR)text->p, text->n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                             &code, &at, context);
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        if (!made)
            err_set(e, code == PCRE2_ERROR_HEAP_FAILED ? ERR_NOMEM : ERR_INPUT,
                    "pattern \"%s\": %s", tok_show(regex, n), (char *)why);
        else
            pcre2_jit_compile(made, PCRE2_JIT_COMPLETE); // without it matching is slow, not wrong
    } else {
        err_set(e, ERR_NOMEM, "out of memory: a pattern");
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return made;
}

static bool has_jit(const pcre2_code *code) {
    size_t size = 0;
    return pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &size) == 0 && size > 0;
}

bool tok_pattern_regex(tok_pattern *p, const char *regex, size_t n, err *e) {
    tok_buf full = {0}, plain = {0};
    bool ok = tok_regex_translate(regex, n, true, &full, e) &&
              tok_regex_translate(regex, n, false, &plain, e);
    p->code = ok ? compile(&full, regex, n, e) : NULL;
    ok = p->code != NULL;
    if (ok && strcmp(full.p, plain.p) != 0) {
        p->plain = compile(&plain, regex, n, e);
        ok = p->plain != NULL;
    }
    p->jit = ok && has_jit(p->code) && (!p->plain || has_jit(p->plain));
    free(full.p);
    free(plain.p);
    return ok;
}

bool tok_pattern_literal(tok_pattern *p, const char *s, size_t n, err *e) {
    p->literal = mem_alloc(n + 1, 1, "a pattern", e);
    if (!p->literal)
        return false;
    memcpy(p->literal, s, n);
    p->literal[n] = 0;
    p->literal_n = n;
    return true;
}

void tok_pattern_free(tok_pattern *p) {
    free(p->literal);
    pcre2_code_free(p->code);
    pcre2_code_free(p->plain);
    *p = (tok_pattern){0};
}

// A run of a million letters may need a deep stack once; the machine's limits, not PCRE2's small
// defaults, are the ones that count.
static bool finder_open(tok_finder *f, err *e) {
    f->general = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    f->context = f->general ? pcre2_match_context_create(f->general) : NULL;
    f->data = f->context ? pcre2_match_data_create(1, f->general) : NULL;
    if (!f->data)
        return err_set(e, ERR_NOMEM, "out of memory: matching a pattern");
    pcre2_set_match_limit(f->context, UINT32_MAX);
    pcre2_set_depth_limit(f->context, UINT32_MAX);
    pcre2_set_heap_limit(f->context, UINT32_MAX);
    f->stack = pcre2_jit_stack_create(32 * 1024, (size_t)256 << 20, f->general);
    if (f->stack)
        pcre2_jit_stack_assign(f->context, NULL, f->stack);
    return true;
}

void tok_finder_free(tok_finder *f) {
    pcre2_match_data_free(f->data);
    pcre2_jit_stack_free(f->stack);
    pcre2_match_context_free(f->context);
    pcre2_general_context_free(f->general);
    *f = (tok_finder){0};
}

// memchr and a look: most literals are one character long, and matches are dense.
static bool search_literal(const tok_pattern *p, const char *s, size_t n, size_t from,
                           size_t *start) {
    while (p->literal_n && from < n && n - from >= p->literal_n) {
        const char *hit = memchr(s + from, p->literal[0], n - from - p->literal_n + 1);
        if (!hit)
            break;
        *start = (size_t)(hit - s);
        if (!memcmp(hit, p->literal, p->literal_n))
            return true;
        from = *start + 1;
    }
    return false;
}

// Every character that newer Unicode versions added lies above U+0800.
static bool below_u0800(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0xE0)
            return false;
    return true;
}

static bool search(const tok_pattern *p, tok_finder *f, const tok_find *it, const char *s, size_t n,
                   size_t *start, size_t *end, bool *found, err *e) {
    size_t from = it->next;
    const pcre2_code *code = it->plain ? p->plain : p->code;
    *found = false;
    if (p->literal) {
        *found = search_literal(p, s, n, from, start);
        if (*found)
            *end = *start + p->literal_n;
        return true;
    }
    if (!f->data && !finder_open(f, e))
        return false;
    int rc = p->jit ? pcre2_jit_match(code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, f->data,
                                      f->context)
                    : PCRE2_ERROR_JIT_STACKLIMIT;
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, f->data,
                         f->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return true;
    if (rc < 0) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(rc, why, sizeof why);
        return err_set(
            e, rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT ? ERR_NOMEM : ERR_INPUT,
            "matching the pattern at byte %zu: %s", from, (char *)why);
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(f->data);
    *found = true;
    *start = at[0];
    *end = at[1];
    return true;
}

bool tok_pattern_next(const tok_pattern *p, tok_finder *f, tok_find *it, const char *s, size_t n,
                      size_t *start, size_t *end, bool *found, err *e) {
    *found = false;
    if (!it->begun) {
        it->begun = true;
        it->plain = p->plain && below_u0800(s, n);
    }
    while (!it->done && it->next <= n) {
        if (!search(p, f, it, s, n, start, end, found, e))
            return false;
        if (!*found)
            break;
        // No empty match right behind the last match: look again one character further.
        if (*start == *end && it->matched && it->last_end == *end) {
            int len = 1;
            if (it->next < n)
                tok_char(s + it->next, &len);
            it->next += (size_t)len;
            *found = false;
            continue;
        }
        it->next = it->last_end = *end;
        it->matched = true;
        return true;
    }
    it->done = true;
    return true;
}
