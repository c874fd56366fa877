#include "tests/bench_rows.h"

#include "core/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

bench_row *made_row(record *r, int id, made how, uint64_t seed) {
    err e = {0};
    uint64_t rng = seed;
    bench_row *row = made_samples(r, id, NULL, 0);
    for (int k = 0; k < how.rounds; k++) {
        double level = how.ms * exp(how.between * random_normal(&rng));
        for (int i = 0; i < how.per_round; i++) {
            double ms = level * exp(how.within * fabs(random_normal(&rng)));
            double cycles = how.clock > 0 ? ms * how.clock : (double)NAN;
            assert_true(timings_add(&row->warm, ms, cycles, k, false, &e));
        }
    }
    return row;
}

bench_row *made_samples(record *r, int id, const double *ms, size_t n) {
    err e = {0};
    bench_row *row = record_add(r, &e);
    assert_non_null(row);
    json_object_set_new(row->params, "op", json_string("made"));
    json_object_set_new(row->params, "T", json_integer(id));
    json_object_set_new(row->params, "device", json_string("cpu"));
    snprintf(row->name, sizeof row->name, "made.T%d", id);
    snprintf(row->source, sizeof row->source, "deltop");
    for (size_t i = 0; i < n; i++)
        assert_true(timings_add(&row->warm, ms[i], NAN, 0, false, &e));
    return row;
}

void made_place(record *r, const char *cpu, const char *sha256) {
    json_object_set_new(
        r->about, "environment",
        json_pack("{s:{s:s}, s:{s:s}}", "cpu", "model", cpu, "build", "sha256", sha256));
}
