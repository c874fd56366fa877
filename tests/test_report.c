// deltop report as users run it: facts against other programs, stopping and going on, full disks, bad
// models, names, rules. Uses examples/.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DN   "examples/small-deltanet"
#define DP   "examples/small-deltaproduct2"
#define GDP  "examples/small-gated-deltaproduct2"
#define TEXT "examples/text_kjv.txt"

enum { MAX_WORDS = 40 };

static run start(const char *const *words, int kill_after_ms) {
    const char *argv[MAX_WORDS + 2] = {"report"};
    run r = {.argv = argv, .timeout = 120};
    for (int i = 0; words[i] && i < MAX_WORDS; i++)
        argv[i + 1] = words[i];
    if (kill_after_ms) {
        r.signal = SIGKILL;
        r.signal_after = kill_after_ms / 1000.0;
    }
    assert_true(run_program(&r));
    r.argv = NULL;
    return r;
}

static run report(int code, const char *const *words) {
    run r = start(words, 0);
    if (r.code != code)
        fail_msg("exit code %d, not %d: %s%s", r.code, code, r.out, r.err);
    return r;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

// Keeps a path from files_path, whose buffers rotate.
static const char *keep(const char *path) {
    static char kept[16][512];
    static int next;
    char *to = kept[next++ % 16];
    snprintf(to, sizeof kept[0], "%s", path);
    return to;
}

static const char *out_folder(const char *name) {
    return keep(files_path("%s", name));
}

// ---- facts --------------------------------------------------------------------------------------

typedef struct lines {
    json_t **v;
    size_t n;
} lines;

static lines read_lines(const char *folder) {
    lines l = {0};
    size_t n = 0;
    char *text = files_read(files_path("%s/results.jsonl", folder), &n), *at = text;
    // files_path joins with the test's folder; OUT is below it.
    for (char *end; (end = strchr(at, '\n')); at = end + 1) {
        json_error_t why;
        l.v = realloc(l.v, (l.n + 1) * sizeof *l.v);
        l.v[l.n] = json_loadb(at, (size_t)(end - at), 0, &why);
        if (!l.v[l.n++])
            fail_msg("line %zu of results.jsonl: %s", l.n, why.text);
    }
    assert_int_equal(at - text, n); // the last line ends too
    free(text);
    return l;
}

static void lines_free(lines *l) {
    for (size_t i = 0; i < l->n; i++)
        json_decref(l->v[i]);
    free(l->v);
}

// -1: without the key.
static const json_t *fact(const lines *l, const char *name, const char *model, int layer, int head,
                          int64_t position, int row) {
    const json_t *found = NULL;
    for (size_t i = 0; i < l->n; i++) {
        const json_t *v = l->v[i], *x;
#define IS(key, want)                                                                              \
    ((x = json_object_get(v, key)) ? json_integer_value(x) == (want) : (want) == -1)
        if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0 &&
            strcmp(json_string_value(json_object_get(v, "model")), model) == 0 &&
            IS("layer", layer) && IS("head", head) && IS("position", position) && IS("row", row)) {
            assert_null(found); // a fact stands once
            found = v;
        }
#undef IS
    }
    if (!found)
        fail_msg("no fact %s of %s L%d.H%d at %lld row %d", name, model, layer, head,
                 (long long)position, row);
    return found;
}

static double value(const lines *l, const char *name, const char *model, int layer, int head,
                    int64_t position, int row) {
    const json_t *v = json_object_get(fact(l, name, model, layer, head, position, row), "value");
    return json_is_null(v) ? NAN : json_number_value(v);
}

static bool starts(const char *text, const char *with) {
    return text && strncmp(text, with, strlen(with)) == 0;
}

// What docs/facts.md calls a share lies in 0 .. 1, and a half-life that is none says of the two reasons the
// one that the share of modes without decay allows. Returns how many shares were seen.
static int shares_are_shares(const lines *l) {
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
    model = keep(model);
    const char *text = keep(files_shared("documents/text_kjv.txt")), *out = out_folder("facts");
    run r = report(0, WORDS(model, "--doc", text, "--length", "2k", "--every", "64", "--out", out));
    run_free(&r);
    lines l = read_lines("facts");
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
        double mean = sum / (double)(to - N / 2), got = value(&l, "loss", name, -1, -1, N, -1);
        worst_loss = fmax(worst_loss, fabs(got - mean));
        assert_true(fabs(value(&l, "ppl", name, -1, -1, N, -1) - exp(got)) < 1e-9 * exp(got));
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
                worst_rank =
                    fmax(worst_rank,
                         fabs(value(&l, "erank", name, L, h, N, -1) / (rank_sum / (double)n) - 1));
                worst_norm = fmax(worst_norm, fabs(log(value(&l, "state_norm", name, L, h, N, -1)) -
                                                   norm_sum / (double)n));
            }
    }
    // L = 512.
    double past = 0, before = 0;
    for (int i = 512; i < 2047; i++)
        past += x[i] / 1535;
    for (int i = 256; i < 512; i++)
        before += x[i] / 256;
    worst_loss = fmax(worst_loss,
                      fabs(value(&l, "extrapolation_index", name, -1, -1, -1, -1) - past + before));
    printf("measured: against float64, loss %.1e nats, effective rank %.1e, norm %.1e relative\n",
           worst_loss, worst_rank, worst_norm);
    // float32 against float64: means of losses to 1e-5, ranks and norms of single states to 1e-3.
    assert_true(worst_loss < 1e-5 && worst_rank < 1e-3 && worst_norm < 1e-3);
    double error = value(&l, "precision_error", name, -1, -1, -1, -1);
    assert_true(error > 0 && error < 1e-3);
    assert_true(shares_are_shares(&l) > 1000);
    npy_free(&loss);
    npy_free(&rank);
    npy_free(&norm);
    lines_free(&l);
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
    const char *docs = keep(files_path("docs.jsonl")), *out = out_folder("documented");
    run r = report(0, WORDS(GDP, DP, "--doc", docs, "--train-length", "16", "--out", out));
    run_free(&r);
    lines l = read_lines("documented");
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
    assert_true(value(&l, "boundaries", "small-deltaproduct2", -1, -1, -1, -1) == 2);
    assert_true(shares_are_shares(&l) > 100);
    assert_true(value(&l, "documents", "small-deltaproduct2", -1, -1, -1, -1) == 3);
    lines_free(&l);
    free(doc);
}

// ---- the same bytes -----------------------------------------------------------------------------

static const char *compare_to;
static size_t compare_from;
static int compared;

static int same_file(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)at;
    if (type != FTW_F)
        return 0;
    if (strstr(path, ".tmp."))
        fail_msg("%s was left behind", path);
    char other[1024];
    snprintf(other, sizeof other, "%s%s", compare_to, path + compare_from);
    size_t n = 0, m = 0;
    char *a = files_read(path, &n), *b = files_read(other, &m);
    if (n != m || memcmp(a, b, n) != 0)
        fail_msg("%s (%zu bytes) and %s (%zu bytes) differ", path, n, other, m);
    free(a);
    free(b);
    compared++;
    return 0;
}

// Every file of a is in b and the same; and the other way round.
static void same_folders(const char *a, const char *b) {
    compared = 0;
    compare_to = b;
    compare_from = strlen(a);
    assert_int_equal(nftw(a, same_file, 16, FTW_PHYS), 0);
    compare_to = a;
    compare_from = strlen(b);
    assert_int_equal(nftw(b, same_file, 16, FTW_PHYS), 0);
}

static const char *const three[] = {DN,         DP,          GDP,      "--doc",   TEXT,
                                    "--length", "1k",        "--rows", "3",       "--every",
                                    "64",       "--samples", "2",      "--quiet", NULL};

static run three_into(const char *out, const char *threads, int kill_after_ms) {
    const char *words[MAX_WORDS];
    int n = 0;
    for (; three[n]; n++)
        words[n] = three[n];
    words[n++] = "--threads";
    words[n++] = threads;
    words[n++] = "--out";
    words[n++] = out;
    words[n] = NULL;
    return start(words, kill_after_ms);
}

// Killed at three moments and started again each time; then with another number of threads.
static void a_killed_report_goes_on_and_gives_the_same_bytes(void **unused) {
    (void)unused;
    const char *whole = out_folder("whole"), *killed = out_folder("killed"),
               *one = out_folder("one-thread");
    double from = files_seconds();
    run r = three_into(whole, "2", 0);
    double took = files_seconds() - from;
    assert_int_equal(r.code, 0);
    run_free(&r);
    uint64_t seed = (uint64_t)getpid();
    int at[3], ended = 0;
    for (int i = 0; i < 3; i++) {
        at[i] = (int)(1000 * took * (0.05 + 0.2 * (double)(tiny_next(&seed) % 1000) / 1000));
        r = three_into(killed, "2", at[i] > 0 ? at[i] : 1);
        ended += r.ended_by == SIGKILL;
        run_free(&r);
    }
    r = three_into(killed, "2", 0);
    if (r.code != 0)
        fail_msg("exit code %d: %s", r.code, r.err);
    run_free(&r);
    same_folders(whole, killed);
    printf("measured: killed %d times, after %d, %d and %d ms of %.0f; %d files the same\n", ended,
           at[0], at[1], at[2], 1000 * took, compared);
    assert_true(ended >= 1 && compared > 40);
    r = three_into(one, "1", 0);
    assert_int_equal(r.code, 0);
    run_free(&r);
    same_folders(whole, one);
}

static void results_of_other_settings_are_not_taken(void **unused) {
    (void)unused;
    const char *mixed = out_folder("mixed"), *fresh = out_folder("fresh");
    static const char *const first[] = {"--length", "512"}, *const second[] = {"--length", "640"};
    for (int i = 0; i < 2; i++) {
        const char *const *o = i ? second : first;
        run r = report(0, WORDS(DN, "--doc", TEXT, o[0], o[1], "--out", mixed));
        run_free(&r);
    }
    run r = report(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", fresh));
    run_free(&r);
    same_folders(mixed, fresh);
    // A result that is damaged is made again.
    size_t n = 0;
    const char *row = "mixed/tasks/small-deltanet/text_kjv/row-0.safetensors";
    char *bytes = files_read(files_path("%s", row), &n);
    files_write(files_path("%s", row), bytes, n / 2);
    free(bytes);
    r = report(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    run_free(&r);
    same_folders(mixed, fresh);
    // One whose numbers were changed is found out, named and removed.
    bytes = files_read(files_path("%s", row), &n);
    bytes[n - 9] ^= 4;
    files_write(files_path("%s", row), bytes, n);
    free(bytes);
    r = report(1, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    if (!strstr(r.err, "is damaged") || !strstr(r.err, "it was removed"))
        fail_msg("said: %s", r.err);
    run_free(&r);
    r = report(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    run_free(&r);
    same_folders(mixed, fresh);
    r = report(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    if (!strstr(r.err, "1 of 1 rows are there already"))
        fail_msg("said: %s", r.err);
    run_free(&r);
}

// Rows that were read before the document was cut do not blame the settings, which are the same.
static void a_document_that_was_cut_is_told_and_not_other_settings(void **unused) {
    (void)unused;
    const char *text = keep(files_path("%s", "book.txt")), *out = out_folder("cut");
    size_t n = 0;
    char *bytes = files_read(TEXT, &n);
    files_write(text, bytes, 20000);
    run r = report(0, WORDS(DN, "--doc", text, "--length", "512", "--out", out));
    run_free(&r);
    files_write(text, bytes, 9000);
    r = report(1, WORDS(DN, "--doc", text, "--length", "512", "--out", out, "--assemble"));
    run_holds(r.err,
              "row-0.safetensors: was made when the document had 8492 tokens; it has 3731 now");
    assert_null(strstr(r.err, "settings"));
    run_free(&r);
    bytes[0] ^= 1; // as long as before
    files_write(text, bytes, 20000);
    free(bytes);
    r = report(1, WORDS(DN, "--doc", text, "--length", "512", "--out", out, "--assemble"));
    run_holds(r.err, "was made before the document changed");
    run_free(&r);
    r = report(1, WORDS(DN, "--doc", text, "--length", "256", "--out", out, "--assemble"));
    run_holds(r.err, "was made before the document changed");
    run_free(&r);
    r = report(0, WORDS(DN, "--doc", text, "--length", "512", "--out", out));
    run_free(&r);
    r = report(1, WORDS(DN, "--doc", text, "--length", "256", "--out", out, "--assemble"));
    run_holds(r.err, "was made with other settings");
    run_free(&r);
}

// ---- what goes wrong ----------------------------------------------------------------------------

static int left_over(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)at;
    if (type == FTW_F && strstr(path, ".tmp"))
        fail_msg("%s was left behind", path);
    return 0;
}

// A small file system that fills up: root mounts one, others have a limit on the size of a file.
static void a_full_disk_is_told_and_leaves_no_half_files(void **unused) {
    (void)unused;
    const char *out = out_folder("small");
    files_mkdir(out);
    bool mounted = mount("none", out, "tmpfs", 0, "size=700k") == 0;
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 60000;
    if (!mounted) {
        signal(SIGXFSZ, SIG_IGN); // inherited
        setrlimit(RLIMIT_FSIZE, &small);
    }
    run r = start(WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out), 0);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    bool told = strstr(r.err, "cannot write: ") != NULL && strstr(r.err, out) != NULL;
    int code = r.code;
    char text[400];
    snprintf(text, sizeof text, "%s", r.err);
    run_free(&r);
    int bad = nftw(out, left_over, 16, FTW_PHYS);
    if (mounted)
        umount(out);
    assert_int_equal(bad, 0);
    if (code != 1 || !told)
        fail_msg("exit code %d: %s", code, text);
    printf("measured: %s\n", mounted ? "a file system of 700 kB" : "a limit on the size of files");
}

static void a_folder_that_may_not_be_written_is_told_before_the_work(void **unused) {
    (void)unused;
    const char *locked = out_folder("locked");
    files_mkdir(locked);
    assert_int_equal(chmod(locked, 0500), 0);
    bool root = geteuid() == 0;
    if (root && access("/sys/kernel", X_OK) != 0) {
        printf("SKIP: no folder that root may not write\n");
        skip();
    }
    const char *out = root ? "/sys/kernel" : locked;
    double from = files_seconds();
    run r = report(1, WORDS(DN, "--doc", TEXT, "--out", out));
    if (!strstr(r.err, out))
        fail_msg("said: %s", r.err);
    // All of the document would take seconds.
    printf("measured: told after %.2f s\n", files_seconds() - from);
    assert_string_equal(r.out, "");
    run_free(&r);
    chmod(locked, 0700);
}

// One of three models is damaged: the others are read, the page names it, exit code 1.
static void a_damaged_model_is_named_and_the_others_are_read(void **unused) {
    (void)unused;
    tiny_model *m = tiny_load(DN);
    tiny_drop(m, "model.layers.1.attn.q_proj.weight");
    const char *damaged = keep(tiny_save(m, "damaged")), *out = out_folder("partly");
    tiny_free(m);
    files_write(keep(files_path("damaged/tokenizer.json")), "", 0);
    size_t n = 0;
    char *tokenizer = files_read(DN "/tokenizer.json", &n);
    files_write(files_path("damaged/tokenizer.json"), tokenizer, n);
    free(tokenizer);
    run r = report(1, WORDS(damaged, DN, "--doc", TEXT, "--length", "256", "--out", out));
    if (!strstr(r.out, "Missing") || !strstr(r.out, "q_proj"))
        fail_msg("said: %s%s", r.out, r.err);
    run_free(&r);
    char *page = files_read(files_path("partly/index.html"), &n);
    if (!strstr(page, "q_proj"))
        fail_msg("the page does not name the tensor");
    free(page);
    lines l = read_lines("partly");
    assert_true(value(&l, "loss", "small-deltanet", -1, -1, 256, -1) > 0);
    lines_free(&l);
    // Nothing but damaged models is an error, and no page.
    r = report(1, WORDS(damaged, "--doc", TEXT, "--out", out_folder("none")));
    assert_true(strstr(r.err, "q_proj") != NULL);
    run_free(&r);
    assert_true(access(files_path("none/index.html"), F_OK) != 0);
}

// A model with weights that are NaN: told, and still a page.
static void losses_that_are_not_finite_are_findings(void **unused) {
    (void)unused;
    tiny_model *m = tiny_load(DN);
    // A weight that is finite, and a product that is not.
    tiny_get(m, "model.layers.2.attn.v_proj.weight")->v[5] = 3e38f;
    tiny_get(m, "model.layers.2.attn_norm.weight")->v[5] = 1e10f;
    const char *model = keep(tiny_save(m, "nan")), *out = out_folder("nan-out");
    tiny_free(m);
    size_t n = 0;
    char *tokenizer = files_read(DN "/tokenizer.json", &n);
    files_write(files_path("nan/tokenizer.json"), tokenizer, n);
    free(tokenizer);
    run r = report(0, WORDS(model, "--doc", TEXT, "--length", "256", "--out", out));
    if (!strstr(r.out, "losses are NaN or infinite"))
        fail_msg("said: %s%s", r.out, r.err);
    run_free(&r);
    lines l = read_lines("nan-out");
    assert_true(value(&l, "loss_not_finite", "nan", -1, -1, -1, -1) > 0);
    assert_true(isnan(value(&l, "loss", "nan", -1, -1, 256, -1)));
    lines_free(&l);
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
    const char *model = keep(tiny_save(m, "dead")), *out = out_folder("dead-out");
    tiny_free(m);
    size_t n = 0;
    char *tokenizer = files_read(DN "/tokenizer.json", &n);
    files_write(files_path("dead/tokenizer.json"), tokenizer, n);
    free(tokenizer);
    run r =
        report(0, WORDS(model, "--doc", TEXT, "--length", "128", "--rows", "2", "--train-length",
                        "32", "--every", "8", "--samples", "2", "--out", out));
    run_free(&r);
    lines l = read_lines("dead-out");
    assert_true(isnan(value(&l, "erank_growth", "dead", LAYER, HEAD, -1, -1)));
    double sum = 0, all = value(&l, "erank_growth", "dead", -1, -1, -1, -1),
           rows = (value(&l, "erank_growth", "dead", -1, -1, -1, 0) +
                   value(&l, "erank_growth", "dead", -1, -1, -1, 1)) /
                  2;
    int growing = 0;
    for (int i = 0; i < LAYERS * HEADS; i++) {
        double x = value(&l, "erank_growth", "dead", i / HEADS, i % HEADS, -1, -1);
        growing += x > 1;
        sum += isnan(x) ? 0 : x;
    }
    // Sums of 15 numbers of two rows in another order.
    assert_true(fabs(all - sum / (LAYERS * HEADS - 1)) < 1e-12 && fabs(all - rows) < 1e-12);
    assert_true(growing > 0);
    assert_true(value(&l, "erank_growing", "dead", -1, -1, -1, -1) == growing);
    lines_free(&l);
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
        words[7] = out_folder("seen-out");
        if (tries[i].train) {
            words[8] = "--train-length";
            words[9] = tries[i].train;
        }
        run r = report(0, words);
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
    run grow =
        report(0, WORDS(DN, "--doc", TEXT, "--length", "600", "--out", out_folder("grow-out")));
    const char *at = strstr(grow.out, " heads grow");
    int heads = 0, still = 0, end = 0, before = 0;
    while (at && at > grow.out && at[-1] != ':')
        at--;
    const char *rest = at ? strstr(at, "of 32); ") : NULL;
    if (!rest || sscanf(at, " %d of 16 heads grow", &heads) != 1 ||
        sscanf(rest, "of 32); %d of them still grow%*[s ]at %d, compared with %d.", &still, &end,
               &before) != 3)
        fail_msg("said: %s", grow.out);
    lines l = read_lines("grow-out");
    int want = 0, want_still = 0;
    for (int i = 0; i < 16; i++) {
        bool grows = value(&l, "erank_growth", "small-deltanet", i / 4, i % 4, -1, -1) > 1;
        want += grows;
        want_still +=
            grows && value(&l, "erank", "small-deltanet", i / 4, i % 4, end, -1) -
                             value(&l, "erank", "small-deltanet", i / 4, i % 4, before, -1) >
                         1;
    }
    lines_free(&l);
    run_free(&grow);
    assert_int_equal(end, 600);
    assert_int_equal(heads, want);
    assert_int_equal(still, want_still);
    // One document long enough, one not.
    const char *text = keep(files_path("brief.txt"));
    files_text(text, "In the beginning God created the heaven and the earth.");
    run r = report(0, WORDS(DP, "--doc", TEXT, "--doc", text, "--length", "200", "--train-length",
                            "100", "--out", out_folder("some-out")));
    if (!strstr(r.out, "1 of 2 readings do not go beyond the training length"))
        fail_msg("said: %s", r.out);
    run_free(&r);
}

// Rows open their document again, so that a pipe would hang or be empty.
static void a_pipe_is_refused_before_the_work(void **unused) {
    (void)unused;
    const char *pipe = keep(files_path("pipe.txt")), *out = out_folder("pipe-out");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    run r = report(1, WORDS(DN, "--doc", pipe, "--length", "64", "--out", out));
    if (!strstr(r.err, "is a pipe, which can be read only once"))
        fail_msg("said: %s", r.err);
    assert_ptr_equal(strchr(r.err, '\n'), r.err + r.n_err - 1);
    run_free(&r);
    assert_int_not_equal(access(out, F_OK), 0);
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
    const char *doc = keep(files_path("ids.npy"));
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
        const char *model = keep(tiny_save(m, "shifted")), *out = out_folder("shifted-out");
        tiny_free(m);
        run r = report(0, WORDS(model, "--doc", doc, "--out", out, "--json"));
        run_free(&r);
        lines l = read_lines("shifted-out");
        double most = 0, next = 0, own = 0;
        for (int L = 0; L < LAYERS; L++)
            for (int h = 0; h < HEADS; h++) {
                double z = fabs(value(&l, "norm_outlier", "shifted", L, h, -1, -1));
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
        lines_free(&l);
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
    const char *out = out_folder("evil-out");
    run r = report(0, WORDS(link, "--doc", TEXT, "--length", "128", "--out", out));
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
    const char *out = out_folder("page");
    run r = report(0, WORDS(DN, DP, "--doc", TEXT, "--length", "600", "--rows", "2", "--out", out));
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

// ---- rules and the command line -----------------------------------------------------------------

static void rules_are_checked_and_named(void **unused) {
    (void)unused;
    const char *rules = keep(files_path("rules.ini")), *out = out_folder("ruled");
    files_text(rules, "fine = loss(300) < 20\nwide = heads(erank > 0.01*K) == 0\n");
    run r = report(4, WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out, "--rules", rules));
    if (!strstr(r.out, "BROKEN: wide") || !strstr(r.out, "1 of 2 hold"))
        fail_msg("said: %s%s", r.out, r.err);
    run_free(&r);
    // The position that a rule names has a fact.
    lines l = read_lines("ruled");
    assert_true(value(&l, "loss", "small-deltanet", -1, -1, 300, -1) > 0);
    lines_free(&l);
    // The same results under rules that hold: nothing is read again, and `check` agrees.
    files_text(rules, "fine = loss(512) < 20\n");
    r = report(0, WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out, "--rules", rules));
    assert_non_null(strstr(r.err, "1 of 1 rows are there already"));
    run_free(&r);
    files_text(rules, "nonsense = los(512) < 20\n");
    r = report(1, WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out_folder("unruled"),
                        "--rules", rules));
    assert_non_null(strstr(r.err, "los"));
    run_free(&r);
    assert_true(access(files_path("unruled"), F_OK) != 0); // before anything is made
}

static void the_command_line_says_what_is_missing(void **unused) {
    (void)unused;
    static const struct {
        const char *words[8]; // NULL at the end
        const char *says;
    } cases[] = {
        {{DN, "--doc", TEXT}, "add --out DIR"},
        {{DN, "--out", "x"}, "document"},
        {{"--doc", TEXT, "--out", "x"}, "model"},
        {{DN, "--doc", DP, "--out", "x"}, "is a model, not a document"},
        {{DN, TEXT, "--out", "x", "--baseline", "y"}, "--rules"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = report(2, cases[i].words);
        if (!strstr(r.err, cases[i].says))
            fail_msg("case %zu said: %s", i, r.err);
        run_free(&r);
    }
    run r = start(WORDS(DN, "--doc", "nowhere.txt", "--out", "x"), 0);
    assert_int_equal(r.code, 1);
    run_free(&r);
}

static void a_document_may_come_from_standard_input(void **unused) {
    (void)unused;
    const char *out = out_folder("piped");
    const char *argv[] = {"report", DN, DP, "--doc", "-", "--out", out, NULL};
    char text[4000] = "";
    for (int i = 0; i < 40; i++)
        strcat(text, "And God saw the light, that it was good. ");
    run r = {.argv = argv, .input = text, .n_input = strlen(text), .timeout = 60};
    assert_true(run_program(&r));
    if (r.code != 0)
        fail_msg("exit code %d: %s", r.code, r.err);
    run_free(&r);
    lines l = read_lines("piped");
    assert_true(value(&l, "loss_mean", "small-deltaproduct2", -1, -1, -1, -1) > 0);
    lines_free(&l);
}

static int clear(void **state) {
    (void)state;
    files_clear();
    return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, clear)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(facts_agree_with_a_float64_program),
        CASE(every_fact_is_documented_and_finite_or_explained),
        CASE(a_killed_report_goes_on_and_gives_the_same_bytes),
        CASE(results_of_other_settings_are_not_taken),
        CASE(a_document_that_was_cut_is_told_and_not_other_settings),
        CASE(a_full_disk_is_told_and_leaves_no_half_files),
        CASE(a_folder_that_may_not_be_written_is_told_before_the_work),
        CASE(a_damaged_model_is_named_and_the_others_are_read),
        CASE(losses_that_are_not_finite_are_findings),
        CASE(a_head_without_a_state_hides_no_growth),
        CASE(a_pipe_is_refused_before_the_work),
        CASE(nothing_is_said_about_what_was_not_read),
        CASE(B128_a_head_with_another_A_log_is_first_among_outliers),
        CASE(names_on_the_page_are_escaped),
        CASE(the_page_needs_nothing_else),
        CASE(rules_are_checked_and_named),
        CASE(the_command_line_says_what_is_missing),
        CASE(a_document_may_come_from_standard_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
