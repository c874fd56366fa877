// Rows that other programs measured: the peers' kit's files (one library a file: "peer", "rows" with
// "shape", "variant", "status", "ms", "samples_ms", "error_vs_fp64"), and files of this program.
#include "bench/case.h"
#include "bench/record.h"
#include "core/jsonio.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *text_or(const json_t *o, const char *key, const char *otherwise) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : otherwise;
}

static double number_or_nan(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static long long whole_or(const json_t *o, const char *key, long long otherwise) {
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? (long long)json_integer_value(v) : otherwise;
}

// The kit's shape as a case of ours. false with *e empty: an operation that is not measured here.
static bool shape_case(const json_t *shape, case_list *out, err *e) {
    static const struct {
        const char *theirs, *ours;
    } ops[] = {{"gdn", "gdn"},    {"deltanet", "deltanet"}, {"deltaproduct", "deltaproduct"},
               {"kda", "kda"},    {"rwkv7", "rwkv7"},       {"gla", "gla"},
               {"ssd", "mamba2"}, {"simple_gla", "mamba2"}};
    const char *op = text_or(shape, "op", ""), *found = NULL;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].theirs, op) == 0)
            found = ops[i].ours;
    if (!found)
        return false;
    bool product = strcmp(found, "deltaproduct") == 0;
    if (product && json_is_true(json_object_get(shape, "gated")))
        found = "gdeltaproduct";
    char line[256], extra[64] = "";
    if (product)
        snprintf(extra, sizeof extra, " n=%lld beta=%lld", whole_or(shape, "nh", 1),
                 whole_or(shape, "beta_max", 1));
    snprintf(line, sizeof line,
             "%s B=%lld T=%lld H=%lld Hv=%lld K=%lld V=%lld%s dtype=bf16 device=cuda", found,
             whole_or(shape, "B", 1), whole_or(shape, "T", 0), whole_or(shape, "H", 0),
             whole_or(shape, "HV", whole_or(shape, "H", 0)), whole_or(shape, "K", 0),
             whole_or(shape, "V", 0), extra);
    return case_list_read(out, line, e);
}

// Of two ways of calling (eager, CUDA graph) the faster one: a peer gets its best.
static bool best_of(timings *s, const json_t *row, const char *const *modes, err *e) {
    const char *best = NULL;
    double least = INFINITY;
    for (int i = 0; modes[i]; i++) {
        double m = number_or_nan(json_object_get(json_object_get(row, "ms"), modes[i]), "median");
        if (m < least) {
            least = m;
            best = modes[i];
        }
    }
    const json_t *samples = json_object_get(json_object_get(row, "samples_ms"), best ? best : "");
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *v = json_array_get(samples, i);
        if (!timings_add(s, json_is_number(v) ? json_number_value(v) : (double)NAN, NAN, 0, false,
                         e))
            return false;
    }
    if (best && s->n == 0 && !timings_add(s, least, NAN, 0, false, e))
        return false;
    if (best)
        snprintf(s->stop, sizeof s->stop, "%.15s", best);
    return true;
}

static bool add_peer_row(record *r, const json_t *v, const char *peer, err *e) {
    static const char *const warm[] = {"eager_warm", "graph_warm", "wall", NULL};
    static const char *const cold[] = {"eager_cold", "graph_cold", NULL};
    const json_t *shape = json_object_get(v, "shape");
    case_list one = {0};
    err own = {0};
    if (!shape || !shape_case(shape, &one, &own) || one.n != 1) {
        case_list_free(&one);
        return own.code == ERR_NONE || err_set(e, ERR_INPUT, "%s", own.text);
    }
    char impl[96];
    snprintf(impl, sizeof impl, "%s:%s", peer, text_show(text_or(v, "variant", "-")));
    one.v[0].impl = impl;
    bench_row *row = record_add(r, e);
    json_t *params = row ? case_params(&one.v[0]) : NULL;
    bool ok = params != NULL;
    if (ok) {
        json_decref(row->params);
        row->params = params;
        case_name(&one.v[0], row->name, sizeof row->name);
        snprintf(row->source, sizeof row->source, "%s", peer);
        snprintf(row->kernel, sizeof row->kernel, "%s", impl);
        const char *status = text_or(v, "status", "failed");
        row->status = strcmp(status, "ok") == 0        ? ROW_OK
                      : strcmp(status, "wrong") == 0   ? ROW_WRONG
                      : strcmp(status, "skipped") == 0 ? ROW_SKIPPED
                                                       : ROW_FAILED;
        const char *why = row->status == ROW_WRONG ? "its file says so" : text_or(v, "why", "");
        text_escape(why, strlen(why), row->why, sizeof row->why);
        row->error = number_or_nan(json_object_get(v, "error_vs_fp64"), "rel_l2");
        row->state_error = number_or_nan(json_object_get(v, "error_vs_fp64"), "state_rel_l2");
        row->stress = number_or_nan(json_object_get(v, "error_correlated_beta2"), "rel_l2");
        row->flop = number_or_nan(v, "flop");
        row->bytes = number_or_nan(v, "bytes");
        row->floor_ms = number_or_nan(v, "floor_ms");
        row->clock_mhz = number_or_nan(json_object_get(v, "card"), "sm_mhz");
        row->items = (double)(one.v[0].at[AXIS_B] * one.v[0].at[AXIS_T]);
        snprintf(row->item, sizeof row->item, "tokens");
        ok = row->status != ROW_OK ||
             (best_of(&row->warm, v, warm, e) && best_of(&row->cold, v, cold, e));
    }
    case_list_free(&one);
    return ok;
}

bool record_add_external(record *r, const char *path, err *e) {
    enum { MOST = 256 << 20 };
    json_t *v = jsonio_read(path, MOST, e);
    if (!v)
        return false;
    bool ok = true;
    size_t before = r->n;
    if (json_object_get(v, "schema")) {
        record other;
        record_init(&other);
        ok = record_from_json(&other, v, path, e);
        for (size_t i = 0; ok && i < other.n; i++) {
            bench_row *row = record_add(r, e);
            ok = row != NULL;
            if (ok) { // the row moves
                json_decref(row->params);
                *row = other.rows[i];
                row_clear(&other.rows[i]);
                other.rows[i].params = NULL;
            }
        }
        record_free(&other);
    } else {
        char peer[64];
        const json_t *rows = json_object_get(v, "rows");
        snprintf(peer, sizeof peer, "%s", text_show(text_or(v, "peer", "")));
        if (!peer[0] || !json_is_array(rows))
            ok = err_set(e, ERR_INPUT,
                         "%s: is neither a result of deltop bench nor one of the peers' kit (no "
                         "\"schema\", no \"peer\" with \"rows\")",
                         text_show(path));
        for (size_t i = 0; ok && i < json_array_size(rows); i++)
            if (!add_peer_row(r, json_array_get(rows, i), peer, e))
                ok = err_prefix(e, "%s: rows[%zu]", text_show(path), i);
    }
    json_decref(v);
    return ok && (r->n > before ||
                  err_set(e, ERR_INPUT, "%s: holds no row that can be used", text_show(path)));
}
