// What deltop report says: facts against other programs, findings, names, rules, and the page itself.
// Uses examples/.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/report_play.h"
#include "tests/tiny_model.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool starts(const char *text, const char *with) {
    return text && strncmp(text, with, strlen(with)) == 0;
}

// What docs/facts.md calls a share lies in 0 .. 1, and a half-life that is none says of the two reasons the
// one that the share of modes without decay allows. Returns how many shares were seen.
static int shares_are_shares(const report_lines *l) {
    static const char *const names[] = {
        "accuracy",       "top_energy",     "gate_open",       "gate_closed",
        "gate_saturated", "beta_low",       "beta_high",       "beta_saturated",
        "reflecting",     "key_overlap",    "key_pca3",        "key_pca3_centred",
        "complex_share",  "negative_share", "half_life_never", "boundary_auc"};
    int seen = 0;
    double never = NAN;
    for (size_t i = l->n; i-- > 0;) { // backwards: half_life stands in front of its share
        const char *name = json_string_value(json_object_get(l->v[i], "name")),
                   *how = json_string_value(json_object_get(l->v[i], "how"));
        const json_t *v = json_object_get(l->v[i], "value");
        double x = json_number_value(v);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(name, names[k]) == 0 && !json_is_null(v)) {
                if (!(x >= 0 && x <= 1 + 1e-12))
                    fail_msg("a share: %s", json_dumps(l->v[i], JSON_SORT_KEYS));
                seen++;
            }
        if (strcmp(name, "half_life_never") == 0)
            never = x;
        if (strcmp(name, "half_life") == 0 && json_is_null(v) && !starts(how, "no window")) {
            // At 1/2 the median lies between a mode that decays and one that does not.
            assert_true(starts(how, "never") ? never >= 0.5 : starts(how, "shorter"));
            assert_true(!starts(how, "shorter") || never <= 0.5);
        }
    }
    return seen;
}

static npy shared_array(const char *name) {
    err e = {0};
    npy a = {0};
    const char *path = files_shared(name);
    if (!path)
        skip();
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    return a;
}

// The reference program computes losses, ranks and norms in float64, the latter after every 64 tokens.
static void facts_agree_with_a_float64_program(void **unused) {
    (void)unused;
    const char *model = files_shared("checkpoints/small-gated-deltaproduct2");
    if (!model)
        skip();
    model = report_keep(model);
    const char *text = report_keep(files_shared("documents/text_kjv.txt")),
               *out = report_folder("facts");
    run r = report_ends(
        0, WORDS(model, "--doc", text, "--length", "2k", "--every", "64", "--out", out));
    run_free(&r);
    report_lines l = report_read("facts");
    const char *name = "small-gated-deltaproduct2";
    npy loss = shared_array("peer/small-gated-deltaproduct2/loss64_text_kjv.npy"),
        rank = shared_array("peer/small-gated-deltaproduct2/erank64_text_kjv.npy"),
        norm = shared_array("peer/small-gated-deltaproduct2/norm64_text_kjv.npy");
    const double *x = loss.data, *ranks = rank.data, *norms = norm.data;
    double worst_loss = 0, worst_rank = 0, worst_norm = 0;
    for (int64_t N = 64; N <= 2048; N *= 2) {
        double sum = 0;
        int64_t to = N < 2047 ? N : 2047;
        for (int64_t i = N / 2; i < to; i++)
            sum += x[i];
        double mean = sum / (double)(to - N / 2),
               got = report_value(&l, "loss", name, -1, -1, N, -1);
        worst_loss = fmax(worst_loss, fabs(got - mean));
        assert_true(fabs(report_value(&l, "ppl", name, -1, -1, N, -1) - exp(got)) <
                    1e-9 * exp(got));
        for (int L = 0; L < 4; L++)
            for (int h = 0; h < 4; h++) {
                const double *a = ranks + (L * 4 + h) * 512, *b = norms + (L * 4 + h) * 512;
                double rank_sum = 0, norm_sum = 0;
                int64_t n = 0;
                for (int64_t i = 0; i < 512; i++)
                    if (2 * (i + 1) * 64 > N && (i + 1) * 64 <= N) {
                        rank_sum += a[i];
                        norm_sum += log(b[i]);
                        n++;
                    }
                worst_rank = fmax(worst_rank, fabs(report_value(&l, "erank", name, L, h, N, -1) /
                                                       (rank_sum / (double)n) -
                                                   1));
                worst_norm =
                    fmax(worst_norm, fabs(log(report_value(&l, "state_norm", name, L, h, N, -1)) -
                                          norm_sum / (double)n));
            }
    }
    // L = 512.
    double past = 0, before = 0;
    for (int i = 512; i < 2047; i++)
        past += x[i] / 1535;
    for (int i = 256; i < 512; i++)
        before += x[i] / 256;
    worst_loss =
        fmax(worst_loss,
             fabs(report_value(&l, "extrapolation_index", name, -1, -1, -1, -1) - past + before));
    printf("measured: against float64, loss %.1e nats, effective rank %.1e, norm %.1e relative\n",
           worst_loss, worst_rank, worst_norm);
    // float32 against float64: means of losses to 1e-5, ranks and norms of single states to 1e-3.
    assert_true(worst_loss < 1e-5 && worst_rank < 1e-3 && worst_norm < 1e-3);
    double error = report_value(&l, "precision_error", name, -1, -1, -1, -1);
    assert_true(error > 0 && error < 1e-3);
    assert_true(shares_are_shares(&l) > 1000);
    npy_free(&loss);
    npy_free(&rank);
    npy_free(&norm);
    report_free_lines(&l);
}

// docs/facts.md is what writers of rules read.
static void every_fact_is_documented_and_finite_or_explained(void **unused) {
    (void)unused;
    size_t n = 0;
    FILE *f = fopen("docs/facts.md", "r");
    char *doc = calloc(1, 1 << 17);
    n = f ? fread(doc, 1, (1 << 17) - 1, f) : 0;
    assert_true(n > 1000);
    fclose(f);
    files_text(files_path("docs.jsonl"),
               "{\"text\": \"In the beginning God created the heaven and the earth.\"}\n"
               "{\"text\": \"And the earth was without form, and void; and darkness was upon the "
               "face of the deep.\"}\n"
               "{\"text\": \"And God said, Let there be light: and there was light.\"}\n");
    const char *docs = report_keep(files_path("docs.jsonl")), *out = report_folder("documented");
    run r = report_ends(0, WORDS(GDP, DP, "--doc", docs, "--train-length", "16", "--out", out));
    run_free(&r);
    report_lines l = report_read("documented");
    for (size_t i = 0; i < l.n; i++) {
        const char *name = json_string_value(json_object_get(l.v[i], "name"));
        char quoted[128];
        snprintf(quoted, sizeof quoted, "`%s`", name);
        if (!strstr(doc, quoted))
            fail_msg("docs/facts.md does not name %s", name);
        const json_t *v = json_object_get(l.v[i], "value"), *how = json_object_get(l.v[i], "how");
        if (json_is_null(v) && !how)
            fail_msg("%s is null and does not say why", json_dumps(l.v[i], JSON_SORT_KEYS));
    }
    assert_true(report_value(&l, "boundaries", "small-deltaproduct2", -1, -1, -1, -1) == 2);
    assert_true(shares_are_shares(&l) > 100);
    assert_true(report_value(&l, "documents", "small-deltaproduct2", -1, -1, -1, -1) == 3);
    report_free_lines(&l);
    free(doc);
}

// A model with weights that are NaN: told, and still a page.
static void losses_that_are_not_finite_are_findings(void **unused) {
    (void)unused;
    tiny_model *m = tiny_load(DN);
    // A weight that is finite, and a product that is not.
    tiny_get(m, "model.layers.2.attn.v_proj.weight")->v[5] = 3e38f;
    tiny_get(m, "model.layers.2.attn_norm.weight")->v[5] = 1e10f;
    const char *model = report_model(m, "nan"), *out = report_folder("nan-out");
    run r = report_ends(0, WORDS(model, "--doc", TEXT, "--length", "256", "--out", out));
    if (!strstr(r.out, "losses are NaN or infinite"))
        fail_msg("said: %s%s", r.out, r.err);
    run_free(&r);
    report_lines l = report_read("nan-out");
    assert_true(report_value(&l, "loss_not_finite", "nan", -1, -1, -1, -1) > 0);
    assert_true(isnan(report_value(&l, "loss", "nan", -1, -1, 256, -1)));
    report_free_lines(&l);
}

// A head that never writes has no rank; the others' growth is told all the same, and alike by every fact.
static void a_head_without_a_state_hides_no_growth(void **unused) {
    (void)unused;
    enum { LAYERS = 4, HEADS = 4, V = 32, LAYER = 1, HEAD = 2 };
    tiny_model *m = tiny_load(DN);
    tiny_tensor *v = tiny_get(m, "model.layers.%d.attn.v_proj.weight", LAYER);
    int64_t D = v->dims[1];
    for (int64_t i = HEAD * V * D; i < (HEAD + 1) * V * D; i++)
        v->v[i] = 0;
    const char *model = report_model(m, "dead"), *out = report_folder("dead-out");
    run r = report_ends(0, WORDS(model, "--doc", TEXT, "--length", "128", "--rows", "2",
                                 "--train-length", "32", "--every", "8", "--samples", "2", "--out",
                                 out));
    run_free(&r);
    report_lines l = report_read("dead-out");
    assert_true(isnan(report_value(&l, "erank_growth", "dead", LAYER, HEAD, -1, -1)));
    double sum = 0, all = report_value(&l, "erank_growth", "dead", -1, -1, -1, -1),
           rows = (report_value(&l, "erank_growth", "dead", -1, -1, -1, 0) +
                   report_value(&l, "erank_growth", "dead", -1, -1, -1, 1)) /
                  2;
    int growing = 0;
    for (int i = 0; i < LAYERS * HEADS; i++) {
        double x = report_value(&l, "erank_growth", "dead", i / HEADS, i % HEADS, -1, -1);
        growing += x > 1;
        sum += isnan(x) ? 0 : x;
    }
    // Sums of 15 numbers of two rows in another order.
    assert_true(fabs(all - sum / (LAYERS * HEADS - 1)) < 1e-12 && fabs(all - rows) < 1e-12);
    assert_true(growing > 0);
    assert_true(report_value(&l, "erank_growing", "dead", -1, -1, -1, -1) == growing);
    report_free_lines(&l);
}

// A report says no more than it saw: rows that end at the training length (512 here), or of which nobody
// knows one, tell nothing about what lies beyond it. Two models that agree have no highest.
static void nothing_is_said_about_what_was_not_read(void **unused) {
    (void)unused;
    static const struct {
        const char *length, *train, *says[3], *not [2];
    } tries[] = {
        {"128", NULL, {"Nothing broke:", "Nothing was read beyond"}, {"no rise beyond", "highest"}},
        {"128", "128", {"Nothing was read beyond"}, {"no rise beyond", "highest"}},
        {"130", "128", {"lowest loss"}, {"Nothing was read beyond", "highest"}},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        const char *words[16] = {DN, DN, "--doc", TEXT, "--length", tries[i].length, "--out"};
        words[7] = report_folder("seen-out");
        if (tries[i].train) {
            words[8] = "--train-length";
            words[9] = tries[i].train;
        }
        run r = report_ends(0, words);
        for (int k = 0; k < 3; k++)
            if (tries[i].says[k] && !strstr(r.out, tries[i].says[k]))
                fail_msg("try %zu: \"%s\" is not in: %s", i, tries[i].says[k], r.out);
        for (int k = 0; k < 2; k++)
            if (strstr(r.out, tries[i].not [k]))
                fail_msg("try %zu: \"%s\" is in: %s", i, tries[i].not [k], r.out);
        run_free(&r);
    }
    // Of the heads that grow past L only those can still grow at the end, also where the end is no power of
    // two and is compared with a position within L.
    run grow = report_ends(
        0, WORDS(DN, "--doc", TEXT, "--length", "600", "--out", report_folder("grow-out")));
    const char *at = strstr(grow.out, " heads grow");
    int heads = 0, still = 0, end = 0, before = 0;
    while (at && at > grow.out && at[-1] != ':')
        at--;
    const char *rest = at ? strstr(at, "of 32); ") : NULL;
    if (!rest || sscanf(at, " %d of 16 heads grow", &heads) != 1 ||
        sscanf(rest, "of 32); %d of them still grow%*[s ]at %d, compared with %d.", &still, &end,
               &before) != 3)
        fail_msg("said: %s", grow.out);
    report_lines l = report_read("grow-out");
    int want = 0, want_still = 0;
    for (int i = 0; i < 16; i++) {
        bool grows = report_value(&l, "erank_growth", "small-deltanet", i / 4, i % 4, -1, -1) > 1;
        want += grows;
        want_still +=
            grows && report_value(&l, "erank", "small-deltanet", i / 4, i % 4, end, -1) -
                             report_value(&l, "erank", "small-deltanet", i / 4, i % 4, before, -1) >
                         1;
    }
    report_free_lines(&l);
    run_free(&grow);
    assert_int_equal(end, 600);
    assert_int_equal(heads, want);
    assert_int_equal(still, want_still);
    // One document long enough, one not.
    const char *text = report_keep(files_path("brief.txt"));
    files_text(text, "In the beginning God created the heaven and the earth.");
    run r = report_ends(0, WORDS(DP, "--doc", TEXT, "--doc", text, "--length", "200",
                                 "--train-length", "100", "--out", report_folder("some-out")));
    if (!strstr(r.out, "1 of 2 readings do not go beyond the training length"))
        fail_msg("said: %s", r.out);
    run_free(&r);
}

// ---- heads out of line --------------------------------------------------------------------------

// B128: heads of a random model are alike; the one whose A_log is shifted is first in the list, and is
// named among the findings.
static void B128_a_head_with_another_A_log_is_first_among_outliers(void **unused) {
    (void)unused;
    enum { LAYERS = 3, HEADS = 8 };
    // Among heads that forget fast one that keeps, and among heads that keep one that forgets.
    static const double bases[] = {1, -3}, shifts[] = {-6, 6};
    int32_t ids[400];
    uint64_t seed = 3;
    for (int i = 0; i < 400; i++)
        ids[i] = (int32_t)(tiny_next(&seed) % 30);
    const char *doc = report_keep(files_path("ids.npy"));
    err e = {0};
    if (!npy_write(doc, NPY_I4, 1, (int64_t[]){400}, ids, &e))
        fail_msg("%s", e.text);
    double least = INFINITY;
    for (int k = 0; k < 4; k++) {
        int layer = k % LAYERS, head = (k * 3 + 1) % HEADS;
        tiny_model *m = tiny_new((tiny_spec){.family = "gated_deltanet",
                                             .D = 64,
                                             .L = LAYERS,
                                             .H = HEADS,
                                             .Hk = HEADS,
                                             .K = 16,
                                             .V = 16,
                                             .n_h = 1,
                                             .n_vocab = 30,
                                             .conv = 4,
                                             .gate = true,
                                             .seed = 11});
        for (int L = 0; L < LAYERS; L++) { // alike, as after initialisation
            tiny_tensor *a = tiny_get(m, "model.layers.%d.attn.A_log", L);
            tiny_tensor *bias = tiny_get(m, "model.layers.%d.attn.dt_bias", L);
            for (int h = 0; h < HEADS; h++) {
                a->v[h] = bases[k % 2];
                bias->v[h] = -1;
            }
        }
        tiny_get(m, "model.layers.%d.attn.A_log", layer)->v[head] += shifts[k % 2];
        const char *model = report_keep(tiny_save(m, "shifted")),
                   *out = report_folder("shifted-out");
        tiny_free(m);
        run r = report_ends(0, WORDS(model, "--doc", doc, "--out", out, "--json"));
        run_free(&r);
        report_lines l = report_read("shifted-out");
        double most = 0, next = 0, own = 0;
        for (int L = 0; L < LAYERS; L++)
            for (int h = 0; h < HEADS; h++) {
                double z = fabs(report_value(&l, "norm_outlier", "shifted", L, h, -1, -1));
                if (L == layer && h == head)
                    own = z;
                else
                    next = fmax(next, z);
                most = fmax(most, z);
            }
        if (own != most)
            fail_msg("L%d.H%d, shifted by %g: %g, another %g", layer, head, shifts[k % 2], own,
                     next);
        least = fmin(least, own / next);
        report_free_lines(&l);
    }
    printf("measured: the shifted head lies at least %.1f times as far out as the next\n", least);
}

// ---- the page -----------------------------------------------------------------------------------

// Names that would drive a terminal, turn text round or open a tag become placeholders.
static void names_on_the_page_are_escaped(void **unused) {
    (void)unused;
    const char *evil = "m\033]0;x\007\302\233\342\200\256<script>alert(1)</script>'\"&";
    char link[600];
    snprintf(link, sizeof link, "%s/%s", files_folder(), "evil");
    files_mkdir(link);
    snprintf(link, sizeof link, "%s/evil/m\033]0;x\007\302\233\342\200\256<script>'\"&",
             files_folder());
    (void)evil;
    char *here = realpath(DN, NULL);
    assert_int_equal(symlink(here, link), 0);
    free(here);
    const char *out = report_folder("evil-out");
    run r = report_ends(0, WORDS(link, "--doc", TEXT, "--length", "128", "--out", out));
    run_free(&r);
    static const char *const names[] = {"index.html", "report.md", "results.jsonl"};
    for (int i = 0; i < 3; i++) {
        size_t n = 0;
        char *text = files_read(files_path("evil-out/%s", names[i]), &n);
        assert_int_equal(strlen(text), n); // no NUL
        for (size_t k = 0; k < n; k++) {
            unsigned char c = (unsigned char)text[k];
            if ((c < 0x20 && c != '\n') || c == 0x7f)
                fail_msg("%s holds the byte 0x%02x", names[i], c);
        }
        assert_null(strstr(text, "\302\233"));
        assert_null(strstr(text, "\342\200\256"));
        if (i < 2) {
            const char *tag = strstr(text, "<script>'");
            if (tag)
                fail_msg("%s: %.60s", names[i], tag);
            // The command line shows where it was.
            assert_non_null(strstr(text, i == 0 ? "\\x1b]0;x\\x07" : "x1b"));
        }
        free(text);
    }
}

// Nothing is fetched from anywhere, and pictures are in the page.
static void the_page_needs_nothing_else(void **unused) {
    (void)unused;
    const char *out = report_folder("page");
    run r = report_ends(
        0, WORDS(DN, DP, "--doc", TEXT, "--length", "600", "--rows", "2", "--out", out));
    run_free(&r);
    size_t n = 0;
    char *page = files_read(files_path("page/index.html"), &n);
    static const char *const never[] = {"http:",   "https:", "src=\"/", "url(",
                                        "@import", "nan",    "-nan"};
    // Base64 may hold anything.
    char *plain = calloc(1, n + 1), *to = plain;
    int pictures = 0;
    for (char *at = page; *at;) {
        char *data = strstr(at, "base64,");
        size_t len = data ? (size_t)(data - at) : strlen(at);
        memcpy(to, at, len);
        to += len;
        at += len;
        if (data) {
            pictures++;
            at += strcspn(at, "\"");
        }
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        const char *found = strstr(plain, never[i]);
        if (found)
            fail_msg("the page holds %s: %.60s", never[i], found);
    }
    assert_int_equal(pictures, 3 + 2 * 2);
    int open = 0, closed = 0;
    for (const char *c = plain; (c = strstr(c, "<details>")); c++)
        open++;
    for (const char *c = plain; (c = strstr(c, "</details>")); c++)
        closed++;
    assert_int_equal(open, closed);
    assert_int_equal(open, 3);
    free(plain);
    free(page);
}

// ---- rules --------------------------------------------------------------------------------------

static void rules_are_checked_and_named(void **unused) {
    (void)unused;
    const char *rules = report_keep(files_path("rules.ini")), *out = report_folder("ruled");
    files_text(rules, "fine = loss(300) < 20\nwide = heads(erank > 0.01*K) == 0\n");
    run r =
        report_ends(4, WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out, "--rules", rules));
    if (!strstr(r.out, "BROKEN: wide") || !strstr(r.out, "1 of 2 hold"))
        fail_msg("said: %s%s", r.out, r.err);
    run_free(&r);
    // The position that a rule names has a fact.
    report_lines l = report_read("ruled");
    assert_true(report_value(&l, "loss", "small-deltanet", -1, -1, 300, -1) > 0);
    report_free_lines(&l);
    // The same results under rules that hold: nothing is read again, and `check` agrees.
    files_text(rules, "fine = loss(512) < 20\n");
    r = report_ends(0, WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out, "--rules", rules));
    assert_non_null(strstr(r.err, "1 of 1 rows are there already"));
    run_free(&r);
    files_text(rules, "nonsense = los(512) < 20\n");
    r = report_ends(1, WORDS(DN, "--doc", TEXT, "--length", "512", "--out",
                             report_folder("unruled"), "--rules", rules));
    assert_non_null(strstr(r.err, "los"));
    run_free(&r);
    assert_true(access(files_path("unruled"), F_OK) != 0); // before anything is made
}

#define CASE(name) cmocka_unit_test_setup(name, files_cleared)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(facts_agree_with_a_float64_program),
        CASE(every_fact_is_documented_and_finite_or_explained),
        CASE(losses_that_are_not_finite_are_findings),
        CASE(a_head_without_a_state_hides_no_growth),
        CASE(nothing_is_said_about_what_was_not_read),
        CASE(B128_a_head_with_another_A_log_is_first_among_outliers),
        CASE(names_on_the_page_are_escaped),
        CASE(the_page_needs_nothing_else),
        CASE(rules_are_checked_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
