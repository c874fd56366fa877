#include "cli/spectrum_json.h"

#include "cli/output.h"

#include <math.h>

static int set_real(json_t *j, const char *name, double v) {
    return json_object_set_new(j, name, output_json_real(v));
}

static int set_int(json_t *j, const char *name, int64_t v) {
    return json_object_set_new(j, name, json_integer(v));
}

static json_t *triple(const double *v) {
    json_t *a = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(a, output_json_real(v[i]));
    return a;
}

static json_t *window_json(const spectrum_span *w) {
    json_t *j = json_object();
    int bad = set_int(j, "W", w->W) | set_int(j, "products", w->products) |
              set_int(j, "frozen", w->frozen);
    bad |= json_object_set_new(j, "norm2_5_50_95", triple(w->norm2));
    bad |= json_object_set_new(j, "radius_5_50_95", triple(w->radius));
    bad |= json_object_set_new(j, "half_life_10_50_90", triple(w->half_life));
    bad |= set_real(j, "never_decay", w->never) | set_real(j, "lost_in_rounding", w->lost) |
           set_real(j, "asymmetry", w->asymmetry) | set_real(j, "complex", w->complex_share) |
           set_real(j, "below_0.01", w->vanished);
    if (!isnan(w->cond))
        bad |= set_real(j, "cond", w->cond) | set_real(j, "error_estimate", w->error);
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static int set_summary(json_t *j, const spectrum_summary *s) {
    int bad = set_real(j, "complex_tokens", s->complex_share) |
              set_real(j, "negative", s->negative_share) |
              set_real(j, "median_modulus", s->median_modulus) | set_real(j, "rate", s->rate) |
              set_real(j, "half_life", s->half_life) |
              set_real(j, "half_life_by_exponents", s->exponent_half_life) |
              json_object_set_new(j, "half_life_never", json_boolean(isinf(s->half_life)));
    bad |= set_int(j, "half_life_window", s->half_life_window) |
           set_real(j, "largest_exponent", s->largest_exponent) |
           set_real(j, "smallest_exponent", s->smallest_exponent) |
           set_int(j, "singular_tokens", s->singular) | set_int(j, "strong_factors", s->strong) |
           set_real(j, "largest_strength", s->strongest) |
           set_int(j, "norms_above_1", s->over_norm) | set_real(j, "largest_norm", s->largest_norm);
    return bad;
}

static json_t *heads_json(const spectrum_result *r, err *e) {
    json_t *a = json_array();
    int bad = 0;
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->layer[l].n_heads; h++) {
            spectrum_summary s;
            json_t *j = json_object();
            bad |= set_int(j, "layer", r->layer[l].layer) |
                   set_int(j, "head", r->layer[l].head[h].head) |
                   set_int(j, "K", r->layer[l].shape.K) | set_int(j, "n_h", r->layer[l].shape.n_h);
            bad |= !spectrum_summarise(r, l, h, &s, e) || set_summary(j, &s);
            bad |= json_array_append_new(a, j);
        }
    if (bad) {
        json_decref(a);
        return NULL;
    }
    return a;
}

static json_t *integers(const int64_t *v, int64_t n) {
    json_t *a = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer(v[i]));
    return a;
}

json_t *spectrum_json(const spectrum_result *r, const spectrum_summary *s, const spectrum_span *w,
                      err *e) {
    json_t *v = json_object(), *windows = json_array(), *layers = json_array();
    int bad = 0;
    for (int i = 0; i < r->n_layers; i++)
        bad |= json_array_append_new(layers, json_integer(r->layer[i].layer));
    bad |= json_object_set_new(v, "layers", layers);
    bad |= json_object_set_new(v, "windows", integers(r->windows, r->n_windows));
    bad |= json_object_set_new(v, "ends", integers(r->ends, r->samples));
    bad |= json_object_set_new(v, "end_rows", integers(r->end_row, r->samples));
    bad |= set_int(v, "lyapunov_tokens", r->lyapunov_tokens) | set_summary(v, s);
    for (int i = 0; i < r->n_windows; i++)
        bad |= json_array_append_new(windows, window_json(&w[i]));
    bad |= json_object_set_new(v, "by_window", windows);
    bad |= json_object_set_new(v, "by_head", heads_json(r, e));
    if (!bad)
        return v;
    json_decref(v);
    err_set(e, ERR_NOMEM, "out of memory: the JSON result");
    return NULL;
}
