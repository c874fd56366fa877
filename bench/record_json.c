// Results as JSON and back. Numbers that are not known are null; what a reader does not know stays out
// of its way.
#include "bench/record.h"

#include "core/jsonio.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *real(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

// Times to a relative 1e-7: files stay small and read well.
static json_t *rounded(double x) {
    char buf[32];
    if (!isfinite(x))
        return json_null();
    text_real(x, 7, buf, sizeof buf);
    text_number(buf, &x);
    return json_real(x);
}

static bool put(json_t *o, const char *key, json_t *v) {
    return v && json_object_set_new(o, key, v) == 0;
}

static bool put_text(json_t *o, const char *key, const char *s) {
    json_t *v = json_string(s);
    return put(o, key, v ? v : json_string(text_show(s))); // bytes that are not UTF-8, escaped
}

static json_t *timings_json(const timings *s) {
    summary x = timings_summary(s);
    json_t *o = json_object(), *ms = json_array(), *cycles = json_array(), *round = json_array(),
           *marked = json_array();
    bool any_cycles = false, ok = o && ms && cycles && round && marked;
    for (size_t i = 0; ok && i < s->n; i++) {
        any_cycles = any_cycles || isfinite(s->cycles[i]);
        ok = json_array_append_new(ms, rounded(s->ms[i])) == 0 &&
             json_array_append_new(cycles, rounded(s->cycles[i])) == 0 &&
             json_array_append_new(round, json_integer(s->round[i])) == 0 &&
             (!s->marked[i] || json_array_append_new(marked, json_integer((json_int_t)i)) == 0);
    }
    ok = ok && put(o, "median", rounded(x.median)) && put(o, "mad", rounded(x.mad)) &&
         put(o, "p5", rounded(x.p5)) && put(o, "p95", rounded(x.p95)) &&
         put(o, "min", rounded(x.min)) && put(o, "lo", rounded(x.lo)) &&
         put(o, "hi", rounded(x.hi)) && put(o, "n", json_integer((json_int_t)s->n)) &&
         put_text(o, "stop", s->stop) && put(o, "samples_ms", json_incref(ms)) &&
         (!any_cycles || put(o, "cycles", json_incref(cycles))) &&
         put(o, "rounds", json_incref(round)) && put(o, "marked", json_incref(marked));
    json_decref(ms);
    json_decref(cycles);
    json_decref(round);
    json_decref(marked);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *phases_json(const bench_row *row) {
    json_t *a = json_array();
    for (int i = 0; a && i < row->n_phases; i++)
        if (json_array_append_new(a, json_pack("{s:s, s:o}", "name", row->phase[i].name, "ms",
                                               rounded(row->phase[i].ms))) != 0)
            return NULL;
    return a;
}

static json_t *row_json(const bench_row *row) {
    json_t *o = json_object();
    bool ok = put_text(o, "name", row->name) && put(o, "params", json_incref(row->params)) &&
              put_text(o, "source", row->source) && put_text(o, "kernel", row->kernel) &&
              put_text(o, "status", row_status_name(row->status)) &&
              (!row->why[0] || put_text(o, "why", row->why)) &&
              (!row->kernel_why[0] || put_text(o, "kernel_why", row->kernel_why)) &&
              put(o, "error", real(row->error)) && put(o, "state_error", real(row->state_error)) &&
              put(o, "stress_error", real(row->stress)) &&
              put(o, "tolerance", real(row->tolerance)) && put_text(o, "gate", row->gate) &&
              put(o, "flop", real(row->flop)) && put(o, "bytes", real(row->bytes)) &&
              put(o, "chain", real(row->chain)) && put(o, "items", real(row->items)) &&
              put_text(o, "item", row->item) && put(o, "bytes_ms", rounded(row->bytes_ms)) &&
              put(o, "flop_ms", rounded(row->flop_ms)) &&
              put(o, "floor_ms", rounded(row->floor_ms)) && put_text(o, "bound", row->bound);
    ok = ok && put(o, "clock_mhz", real(row->clock_mhz)) &&
         put(o, "max_clock_mhz", real(row->max_clock_mhz)) && put(o, "watt", real(row->watt)) &&
         put(o, "celsius", real(row->celsius)) && put_text(o, "throttle", row->throttle) &&
         put(o, "load", rounded(row->load)) && put(o, "noise", rounded(row->noise)) &&
         put(o, "first_ms", rounded(row->first_ms)) &&
         (!row->n_phases || put(o, "phases", phases_json(row)));
    if (ok && row->warm.n)
        ok = put(o, "warm", timings_json(&row->warm));
    if (ok && row->cold.n)
        ok = put(o, "cold", timings_json(&row->cold));
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *record_json(const record *r) {
    json_t *v = json_object(), *rows = json_array();
    bool ok = v && rows && put_text(v, "schema", RECORD_SCHEMA) &&
              put(v, "schema_version", json_integer(RECORD_VERSION)) &&
              json_object_update_missing(v, r->about) == 0;
    for (size_t i = 0; ok && i < r->n; i++) {
        json_t *row = row_json(&r->rows[i]);
        ok = row && json_array_append_new(rows, row) == 0;
    }
    ok = ok && json_object_set(v, "rows", rows) == 0;
    json_decref(rows);
    if (!ok) {
        json_decref(v);
        return NULL;
    }
    return v;
}

// Reading ---------------------------------------------------------------------------------------

static double number_of(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static void text_of(const json_t *o, const char *key, char *buf, size_t size) {
    // A file may hold anything: what a terminal would obey is escaped here.
    const char *s = json_string_value(json_object_get(o, key));
    text_escape(s ? s : "", s ? strlen(s) : 0, buf, size);
}

static double at_or_nan(const json_t *a, size_t i) {
    const json_t *v = json_array_get(a, i);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static bool read_timings(timings *s, const json_t *o, err *e) {
    if (!json_is_object(o))
        return true;
    const json_t *ms = json_object_get(o, "samples_ms"), *rounds = json_object_get(o, "rounds");
    const json_t *cycles = json_object_get(o, "cycles"), *marked = json_object_get(o, "marked");
    text_of(o, "stop", s->stop, sizeof s->stop);
    size_t n = json_array_size(ms);
    for (size_t i = 0; i < n; i++) {
        double round = at_or_nan(rounds, i);
        if (!timings_add(s, at_or_nan(ms, i), at_or_nan(cycles, i),
                         round >= 0 && round < 1e6 ? (int)round : 0, false, e))
            return false;
    }
    for (size_t i = 0; i < json_array_size(marked); i++) {
        double k = at_or_nan(marked, i);
        if (k >= 0 && k < (double)n)
            s->marked[(size_t)k] = true;
    }
    // Only a median: one sample.
    return n > 0 || !json_object_get(o, "median") ||
           timings_add(s, number_of(o, "median"), NAN, 0, false, e);
}

static bool read_status(const json_t *o, row_status *out) {
    const char *s = json_string_value(json_object_get(o, "status"));
    for (int i = ROW_OK; i <= ROW_SKIPPED; i++)
        if (s && strcmp(s, row_status_name((row_status)i)) == 0) {
            *out = (row_status)i;
            return true;
        }
    return false;
}

static bool read_row(record *r, const json_t *o, size_t i, err *e) {
    json_t *params = json_object_get(o, "params");
    row_status status = ROW_OK;
    if (!json_is_object(o) || !json_is_object(params) || json_object_size(params) == 0)
        return err_set(e, ERR_INPUT, "rows[%zu] has no params", i);
    if (!read_status(o, &status))
        return err_set(e, ERR_INPUT, "rows[%zu]: status is none of ok, wrong, failed, skipped", i);
    bench_row *row = record_add(r, e);
    if (!row)
        return false;
    row->status = status;
    json_object_update(row->params, params);
    text_of(o, "name", row->name, sizeof row->name);
    text_of(o, "source", row->source, sizeof row->source);
    text_of(o, "kernel", row->kernel, sizeof row->kernel);
    text_of(o, "kernel_why", row->kernel_why, sizeof row->kernel_why);
    text_of(o, "why", row->why, sizeof row->why);
    text_of(o, "gate", row->gate, sizeof row->gate);
    text_of(o, "item", row->item, sizeof row->item);
    text_of(o, "bound", row->bound, sizeof row->bound);
    text_of(o, "throttle", row->throttle, sizeof row->throttle);
    const struct {
        const char *key;
        double *to;
    } number[] = {{"error", &row->error},         {"state_error", &row->state_error},
                  {"stress_error", &row->stress}, {"tolerance", &row->tolerance},
                  {"flop", &row->flop},           {"bytes", &row->bytes},
                  {"chain", &row->chain},         {"items", &row->items},
                  {"floor_ms", &row->floor_ms},   {"clock_mhz", &row->clock_mhz},
                  {"watt", &row->watt},           {"celsius", &row->celsius},
                  {"load", &row->load},           {"noise", &row->noise},
                  {"bytes_ms", &row->bytes_ms},   {"flop_ms", &row->flop_ms},
                  {"first_ms", &row->first_ms},   {"max_clock_mhz", &row->max_clock_mhz}};
    for (size_t k = 0; k < sizeof number / sizeof *number; k++)
        *number[k].to = number_of(o, number[k].key);
    const json_t *phases = json_object_get(o, "phases");
    for (size_t k = 0; k < json_array_size(phases) && k < ROW_PHASES; k++) {
        const json_t *p = json_array_get(phases, k);
        text_of(p, "name", row->phase[k].name, sizeof row->phase[k].name);
        row->phase[row->n_phases++].ms = number_of(p, "ms");
    }
    if (!row->name[0])
        snprintf(row->name, sizeof row->name, "row %zu", i);
    return read_timings(&row->warm, json_object_get(o, "warm"), e) &&
           read_timings(&row->cold, json_object_get(o, "cold"), e);
}

bool record_from_json(record *r, const json_t *v, const char *path, err *e) {
    const char *schema = json_string_value(json_object_get(v, "schema"));
    const json_t *version = json_object_get(v, "schema_version"),
                 *rows = json_object_get(v, "rows");
    if (!schema || strcmp(schema, RECORD_SCHEMA) != 0)
        return err_set(e, ERR_INPUT, "%s: is no result of deltop bench (no \"schema\": \"%s\")",
                       text_show(path), RECORD_SCHEMA);
    if (!json_is_integer(version))
        return err_set(e, ERR_INPUT, "%s: schema_version is %s, should be a whole number",
                       text_show(path), jsonio_kind(version));
    if (json_integer_value(version) != RECORD_VERSION)
        return err_set(e, ERR_INPUT,
                       "%s: schema_version %lld, this program reads %d; measure the baseline again",
                       text_show(path), (long long)json_integer_value(version), RECORD_VERSION);
    if (!json_is_array(rows))
        return err_set(e, ERR_INPUT, "%s: rows is %s, should be an array", text_show(path),
                       jsonio_kind(rows));
    snprintf(r->path, sizeof r->path, "%s", path);
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)v, key, member) {
        if (strcmp(key, "rows") != 0)
            json_object_set(r->about, key, member);
    }
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!read_row(r, json_array_get(rows, i), i, e))
            return err_prefix(e, "%s", text_show(path));
    return true;
}

bool record_read(record *r, const char *path, err *e) {
    enum { MOST = 256 << 20 };
    json_t *v = jsonio_read(path, MOST, e);
    if (!v)
        return false;
    bool ok = record_from_json(r, v, path, e);
    json_decref(v);
    return ok;
}
