// Which rows a report reads: heads of models, documents cut into rows, settings as a digest.
#include "cli/report/plan.h"

#include "analyses/report/row_store.h"
#include "cli/reading.h"
#include "cli/say.h"
#include "cli/session.h"
#include "core/ckpt.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "core/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- what a model is ----------------------------------------------------------------------------

static void add_text(sha256 *s, const char *text) {
    sha256_add(s, text, strlen(text) + 1);
}

// Name, size and time of change: reading all of a large model for its digest would cost as much as
// a row. A model that is written again, even with the same size, is another one.
static bool add_file(sha256 *s, const char *path, err *e) {
    struct stat st;
    char name[512], line[128];
    if (stat(path, &st) != 0)
        return err_set(e, ERR_IO, "%s: cannot be looked at", text_show(path));
    snprintf(line, sizeof line, " %lld %lld.%09ld", (long long)st.st_size,
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    add_text(s, file_base(path, name, sizeof name));
    add_text(s, line);
    return true;
}

static bool add_config(sha256 *s, const char *model, err *e) {
    config *c = config_open(model, e);
    size_t n = 0;
    char *text = c ? file_read(config_path(c), (size_t)16 << 20, &n, e) : NULL;
    if (text)
        sha256_add(s, text, n);
    free(text);
    config_close(c);
    return text != NULL;
}

// The tokenizer that reading_tokenizer would take; none is fine.
static bool add_tokenizer(sha256 *s, const char *model, err *e) {
    char *folder = file_is_folder(model) ? mem_strdup(model, e) : file_folder(model, e),
         *file = NULL;
    bool ok = folder && tokenizer_find(folder, &file, e) && (!file || add_file(s, file, e));
    char *beside = ok ? file_join(folder, "tokenizer_config.json", e) : NULL;
    ok = beside && (!file_exists(beside) || add_file(s, beside, e));
    free(folder);
    free(file);
    free(beside);
    return ok;
}

bool plan_model_digest(const char *model, char out[65], err *e) {
    sha256 s;
    sha256_init(&s);
    ckpt *c = ckpt_open(model, e);
    bool ok = c && add_config(&s, model, e) && add_tokenizer(&s, model, e);
    for (int i = 0; ok && i < ckpt_files(c); i++)
        ok = add_file(&s, ckpt_file(c, i), e);
    ckpt_close(c);
    sha256_hex(&s, out);
    return ok;
}

// ---- settings -----------------------------------------------------------------------------------

const int64_t plan_windows[PLAN_WINDOWS] = {16, 128, 512};

// Eigenvalues of one row that a result keeps at most (64 bytes each with what belongs to them).
enum { MOST_VALUES = 1 << 22, LEAST_SAMPLES = 2, SAMPLES_OF_ALL_ROWS = 64 };
// Rows whose results are held at once when they are joined.
enum { MOST_ROWS = 1024 };

int64_t plan_samples(const report_options *own, const model *m, int64_t rows) {
    int64_t each = 0, n = own->samples;
    for (int i = 0; i < m->info.n_layers; i++) {
        const module *x = model_mixer(m, i);
        each += x ? (int64_t)x->heads.H * x->heads.K : 0;
    }
    while (n > LEAST_SAMPLES &&
           (each * PLAN_WINDOWS * n > MOST_VALUES || (n / 2 + 1) * rows > SAMPLES_OF_ALL_ROWS))
        n /= 2;
    return n;
}

int64_t plan_every(const report_options *own, int64_t length) {
    return own->every ? own->every : row_record_every(length);
}

// "NVIDIA H200 (cuda:1)" -> "NVIDIA H200": the cards of one machine are alike.
static void device_kind(const backend *be, char *buf, size_t size) {
    snprintf(buf, size, "%s", be->device);
    char *number = strstr(buf, " (cuda:");
    if (number)
        *number = 0;
}

const char *plan_how(const backend *be, char *buf, size_t size) {
    char device[96];
    device_kind(be, device, sizeof device);
    snprintf(buf, size, "%s, %s", device, precision_name(be->prec));
    return buf;
}

static bool settings_digest(const report *r, const session *s, const rows *rows,
                            const char *model_digest, report_pair *p, err *e) {
    const options *o = r->o;
    json_t *v = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:b, s:b, s:I, s:I}", "format",
        ROW_FORMAT, "version", DELTOP_VERSION, "how", r->how, "model", model_digest, "document",
        rows->d.sha256, "length", (json_int_t)rows->length, "every",
        (json_int_t)plan_every(r->own, rows->length), "samples",
        (json_int_t)plan_samples(r->own, s->m, rows->n), "train_length",
        (json_int_t)p->train_length, "jump", r->own->jump, "add_bos", o->add_bos, "reset_at_bos",
        o->reset_at_bos, "block", (json_int_t)o->block, "tokens", (json_int_t)rows->d.n);
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    json_decref(v);
    if (!text)
        return err_set(e, ERR_NOMEM, "out of memory: the settings of a report");
    sha256 d;
    sha256_init(&d);
    add_text(&d, text);
    sha256_hex(&d, p->settings);
    free(text);
    return true;
}

// ---- pairs --------------------------------------------------------------------------------------

static bool read_pair(report *r, session *s, const char *model_digest, report_pair *p, err *e) {
    rows rows;
    p->train_length = session_train_length(s);
    p->state_bytes = model_state_bytes(s->m);
    p->n_layers = s->m->info.n_layers;
    if (!session_rows(s, p->document, 2, &rows, e))
        return false;
    if (rows.n > MOST_ROWS) {
        err_set(e, ERR_USAGE,
                "%s: %" PRId64 " rows of %" PRId64 " tokens, at most %d are read; choose "
                "--rows, or a larger --length",
                text_show(s->o->document[p->document]), rows.n, rows.length, MOST_ROWS);
        rows_free(&rows);
        return false;
    }
    p->rows = rows.n;
    p->length = rows.length;
    p->tokens = rows.d.n;
    p->unread = rows.unread;
    snprintf(p->sha256, sizeof p->sha256, "%s", rows.d.sha256);
    snprintf(p->added, sizeof p->added, "%s", rows.d.added);
    bool ok = settings_digest(r, s, &rows, model_digest, p, e);
    rows_free(&rows);
    return ok;
}

// The head of a model; what it lacks is known before any row is read.
static bool read_model(session *s, size_t i, char digest[65], err *e) {
    if (!session_model(s, i, e) || !plan_model_digest(s->o->model[i], digest, e))
        return false;
    if (s->m->missing.n)
        return err_set(e, ERR_MISSING, "%s: %zu tensor%s of %s missing, first %s",
                       text_show(s->o->model[i]), s->m->missing.n, s->m->missing.n == 1 ? "" : "s",
                       s->m->info.family, s->m->missing.v[0]);
    return true;
}

// Not a pair's own fault: nothing else would go better.
static bool ends_all(const err *e) {
    return e->code == ERR_USAGE || e->code == ERR_CANCELLED || e->code == ERR_NOMEM;
}

bool plan_make(report *r, err *e) {
    const options *o = r->o;
    session s = {.o = o, .bos = -1};
    bool ok = true;
    size_t readable = 0;
    for (size_t i = 0; ok && i < o->n_models; i++) {
        char digest[65];
        err whole = {0};
        bool there = read_model(&s, i, digest, &whole);
        for (size_t k = 0; ok && k < o->n_documents; k++) {
            report_pair *p = &r->pair[i * o->n_documents + k];
            *p = (report_pair){.model = i, .document = k, .failed = whole};
            if (there && read_pair(r, &s, digest, p, &p->failed))
                readable++;
            else if (ends_all(&p->failed))
                ok = err_set(e, p->failed.code, "%s", p->failed.text);
        }
    }
    for (size_t i = 0; ok && i < r->n_pairs; i++)
        if (r->pair[i].failed.code != ERR_NONE) {
            if (readable == 0)
                ok = err_set(e, r->pair[i].failed.code, "%s", r->pair[i].failed.text);
            else
                say_warning("%s", r->pair[i].failed.text);
        }
    r->input = s.input;
    s.input = NULL;
    session_close(&s);
    return ok;
}
