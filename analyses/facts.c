#include "analyses/facts.h"

#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const char *s, err *e) {
    return mem_strdup(s ? s : "", e);
}

static void release(fact *f) {
    free(f->name);
    free(f->unit);
    free(f->model);
    free(f->document);
    free(f->how);
}

bool facts_add(facts *s, const fact *f, err *e) {
    if (!mem_grow((void **)&s->v, &s->room, s->n + 1, sizeof *s->v, "facts", e))
        return false;
    fact *to = &s->v[s->n];
    *to = *f;
    to->name = copy(f->name, e);
    to->unit = copy(f->unit, e);
    to->model = copy(f->model, e);
    to->document = copy(f->document, e);
    to->how = copy(f->how, e);
    if (to->name && to->unit && to->model && to->document && to->how) {
        s->n++;
        return true;
    }
    release(to);
    return false;
}

void facts_free(facts *s) {
    for (size_t i = 0; i < s->n; i++)
        release(&s->v[i]);
    free(s->v);
    *s = (facts){0};
}

static void put_text(FILE *out, const char *key, const char *s) {
    char shown[1024];
    // Backslashes of a name that needs no escape stay as they are.
    bool plain = true;
    for (const char *c = s; *c; c++)
        plain = plain && (unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f;
    if (!plain)
        s = text_escape(s, strlen(s), shown, sizeof shown);
    fprintf(out, ", \"%s\": \"", key);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

// The fewest digits that read back as the same number.
static void put_real(FILE *out, const char *key, double x) {
    char s[64] = "null";
    for (int digits = 15; isfinite(x) && digits <= 17; digits++) {
        double back = NAN;
        text_real(x, digits, s, sizeof s);
        if (text_number(s, &back) && back == x)
            break;
    }
    fprintf(out, ", \"%s\": %s", key, s);
}

static void put_count(FILE *out, const char *key, int64_t n) {
    if (n != FACT_NONE)
        fprintf(out, ", \"%s\": %" PRId64, key, n);
}

static void put(FILE *out, const fact *f) {
    fprintf(out, "{\"name\": \"%s\"", f->name);
    put_real(out, "value", f->value);
    if (!isnan(f->lo) && !isnan(f->hi)) {
        put_real(out, "lo", f->lo);
        put_real(out, "hi", f->hi);
    }
    put_text(out, "unit", f->unit);
    put_text(out, "model", f->model);
    if (f->document[0])
        put_text(out, "document", f->document);
    put_count(out, "layer", f->layer);
    put_count(out, "head", f->head);
    put_count(out, "position", f->position);
    put_count(out, "row", f->row);
    if (f->how[0])
        put_text(out, "how", f->how);
    fputs("}\n", out);
}

bool facts_write(const facts *s, FILE *out, err *e) {
    for (size_t i = 0; i < s->n; i++)
        put(out, &s->v[i]);
    return ferror(out) ? err_set(e, ERR_IO, "cannot write the facts") : true;
}

bool facts_save(const facts *s, const char *path, err *e) {
    outfile *f = outfile_open(path, e);
    if (!f)
        return false;
    // What goes wrong on the stream is told by the commit, with the system's reason.
    for (size_t i = 0; i < s->n; i++)
        put(outfile_stream(f), &s->v[i]);
    bool ok = outfile_commit(f, e);
    outfile_close(f);
    return ok;
}
