// Constructions as checkpoints: what a plain float64 program makes of their files, whole words and
// every short word through the model, roots of unity, files that other programs load.
#include "analyses/tape.h"
#include "analyses/theory/net.h"
#include "analyses/theory/theory.h"
#include "analyses/words/words.h"
#include "core/file.h"
#include "core/tokenizer.h"
#include "kernels/cpu/cpu.h"
#include "kernels/spectrum.h"
#include "tests/files.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {
    "s2",           "s3",           "s4",        "s5",        "s3-rotations", "a4-rotations",
    "s4-rotations", "a5-rotations", "c3",        "c7",        "mod3",         "d2-rotations",
    "d5-rotations", "d2",           "d3",        "d8",        "parity",       "flip-flop",
    "mod3-reset",   "mod7-reset",   "s3-lookup", "five-state"};
enum { NAMES = sizeof names / sizeof *names };

// Writes NAME into a folder of the test and returns it.
static const char *written(const char *name) {
    err e = {0};
    theory_built b;
    const char *folder = files_path("%s", name);
    if (file_exists(folder))
        return folder;
    files_mkdir(folder);
    if (!theory_build(name, &b, &e) || !theory_write(&b, name, folder, &e))
        fail_msg("%s: %s", name, e.text);
    theory_built_free(&b);
    return folder;
}

typedef struct opened {
    backend *be;
    model *m;
    word_task *t;
} opened;

static opened open_it(const char *name, precision p) {
    err e = {0};
    const char *folder = written(name);
    opened x = {.be = cpu_open(p, 0, &e)};
    x.m = model_open(folder, x.be, &e);
    x.t = x.m ? task_of_model(folder, &e) : NULL;
    if (!x.t)
        fail_msg("%s: %s", name, e.text);
    assert_int_equal(x.m->leftover.n, 0);
    assert_true(x.t->theory);
    return x;
}

static void close_it(opened *x) {
    task_free(x->t);
    model_free(x->m);
    backend_close(x->be);
}

static words_result run_words(const opened *x, int64_t length, int64_t count, bool all) {
    err e = {0};
    words_result r;
    words_options o = {.length = length, .count = count, .all = all, .seed = 5};
    if (!words_run(x->m, x->t, &o, NULL, NULL, &r, &e))
        fail_msg("%s", e.text);
    return r;
}

// From disk through the whole model, float32. Two words of 4096 here; scripts/theory.sh reads 32.
static void long_words_are_right_at_every_position(void **state) {
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        opened x = open_it(names[i], PRECISION_F32);
        words_result r = run_words(&x, 4096, 2, false);
        if (r.perfect != r.count)
            fail_msg("%s: %lld of %lld words, accuracy %.4f", names[i], (long long)r.perfect,
                     (long long)r.count, words_mean(&r, 0, r.length));
        words_free(&r);
        close_it(&x);
    }
    printf("measured %d constructions, 2 words of 4096 tokens each: all answers right\n", NAMES);
}

static void every_short_word_is_right(void **state) {
    (void)state;
    long total = 0;
    for (int i = 0; i < NAMES; i++) {
        opened x = open_it(names[i], PRECISION_F32);
        int64_t length = x.t->n_inputs > 30   ? 1
                         : x.t->n_inputs > 12 ? 2
                         : x.t->n_inputs > 6  ? 3
                                              : 4;
        words_result r = run_words(&x, length, 0, true);
        total += r.count;
        assert_int_equal(r.count, llround(pow(x.t->n_inputs, (double)length)));
        if (r.perfect != r.count)
            fail_msg("%s: %lld of %lld words", names[i], (long long)r.perfect, (long long)r.count);
        words_free(&r);
        close_it(&x);
    }
    printf("measured %ld words, all there are of 1 to 4 tokens: all answers right\n", total);
}

// The other order is another problem wherever the group does not commute.
static void the_other_order_is_wrong(void **state) {
    (void)state;
    err e = {0};
    opened x = open_it("s3", PRECISION_F32);
    assert_true(task_set_order(x.t, false, &e));
    words_result r = run_words(&x, 200, 20, false);
    assert_true(words_mean(&r, 20, 200) < 0.5);
    words_free(&r);
    close_it(&x);
}

// ---- spectra ------------------------------------------------------------------------------------------

typedef struct keep {
    tape *t;
    int layer;
} keep;

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    keep *k = ctx;
    (void)t0, (void)state;
    return layer != k->layer || tape_append(k->t, be, s, e);
}

// Windows of a word: eigenvalues exp(2 pi i p / order) with the order of the window's element. The
// L2 norm's eps of 1e-6 takes 1.4e-5 of a reflection's modulus (allowed 2e-5 each, science.md 3.2);
// angles keep 1e-5.
static void spectra_are_roots_of_unity(void **state) {
    (void)state;
    static const char *const groups[] = {"s3",           "s4", "s5",          "s4-rotations",
                                         "a5-rotations", "c7", "d5-rotations"};
    double worst_angle = 0, worst_modulus = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        enum { T = 400 };
        err e = {0};
        opened x = open_it(groups[i], PRECISION_F64);
        int32_t ids[T];
        int head = 0, input[T], skip = x.t->n_prefix;
        uint64_t seed = 3;
        for (int t = 0; t < T; t++) {
            input[t] = (int)(tiny_next(&seed) % (uint64_t)x.t->n_inputs);
            ids[t] = t < skip ? x.t->prefix[t] : x.t->input_id[input[t]];
        }
        const module *mixer = model_mixer(x.m, 0);
        keep k = {tape_new(&mixer->heads, &head, 1, T, T, &e), 0};
        probe p = {.ctx = &k, .on_steps = on_steps};
        const probe *probes[] = {&p};
        fwd *f = fwd_new(x.m, T, T, &e);
        if (!fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e))
            fail_msg("%s", e.text);
        transitions view = tape_view(k.t, 0);
        for (int W = 1; W <= 128; W *= 2)
            for (int last = skip + W; last < T; last += 37) {
                double complex eig[8];
                window_facts facts;
                int y = x.t->start, order = 1, reflections = 0;
                for (int t = last - W + 1; t <= last; t++) {
                    int swaps[8][2];
                    y = x.t->next[y * x.t->n_inputs + input[t]];
                    reflections += group_swaps(x.t->g, input[t], swaps);
                }
                for (int z = y; z != x.t->start; z = group_mul(x.t->g, y, z))
                    order++;
                if (!spectrum_window(&view, last, W, eig, NULL, &facts, &e))
                    fail_msg("%s", e.text);
                double each =
                    mixer->heads.n_h * W > reflections ? mixer->heads.n_h * W : reflections;
                for (int n = 0; n < view.K; n++) {
                    double turn = carg(eig[n]) / (2 * M_PI) * order;
                    double angle = fabs(turn - round(turn)) * 2 * M_PI / order;
                    worst_angle = worse(worst_angle, angle);
                    worst_modulus = worse(worst_modulus, fabs(cabs(eig[n]) - 1) / each);
                }
            }
        fwd_free(f);
        tape_free(k.t);
        close_it(&x);
    }
    printf("measured angles to roots of unity %.1e (allowed 1e-5), modulus %.1e a "
           "reflection (allowed 2e-5)\n",
           worst_angle, worst_modulus);
    assert_true(worst_angle <= 1e-5);
    assert_true(worst_modulus <= 2e-5);
}

// ---- inside the layer's limits --------------------------------------------------------------------------

static void silu_inverse_inverts_and_vectors_keep_their_direction(void **state) {
    (void)state;
    double worst = 0;
    for (double y = -0.278; y < 8; y += 0.013) {
        double z = silu_inverse(y);
        worst = worse(worst, fabs(z / (1 + exp(-z)) - y));
    }
    assert_true(worst <= 1e-14);
    uint64_t seed = 9;
    for (int n = 0; n < 200; n++) {
        double x[5], z[5], y[5], dot = 0, xx = 0, yy = 0;
        for (int i = 0; i < 5; i++)
            x[i] = tiny_normal(&seed);
        silu_vector(x, 5, n % 2, z);
        for (int i = 0; i < 5; i++) {
            y[i] = z[i] / (1 + exp(-z[i]));
            assert_true(y[i] >= -SILU_LOW - 1e-12 && y[i] <= SILU_HIGH + 1e-12);
            dot += x[i] * y[i];
            xx += x[i] * x[i];
            yy += y[i] * y[i];
        }
        double cosine = dot / sqrt(xx * yy);
        assert_true(fabs((n % 2 ? fabs(cosine) : cosine) - 1) < 1e-12);
    }
}

// Margins of science.md 3: S3 0.499, S4 0.199, S5 0.0995 (measured there in float32), S4 as
// rotations 0.275, A5 0.107.
static void margins_are_those_of_the_constructions(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double margin;
    } known[] = {{"s3", 0.5},
                 {"s4", 0.2},
                 {"s5", 0.1},
                 {"s4-rotations", 0.275},
                 {"a5-rotations", 0.107},
                 {"s3-rotations", 0.5},
                 {"d8", 0.0761},
                 {"mod3", 1.5}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        err e = {0};
        theory_built b;
        assert_true(theory_build(known[i].name, &b, &e));
        if (fabs(b.margin - known[i].margin) > 1e-3)
            fail_msg("%s: margin %.4f, should be %.4f", known[i].name, b.margin, known[i].margin);
        theory_built_free(&b);
    }
}

// ---- files ------------------------------------------------------------------------------------------

typedef struct heard {
    double *loss;
    double *state; // of layer 0, at the end
} heard;

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy(((heard *)ctx)->loss + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static bool on_final(void *ctx, int layer, mat state, backend *be, err *e) {
    if (layer == 0)
        be->op->read(be, state, ((heard *)ctx)->state);
    return backend_check(be, e);
}

// tests/naive_model.c reads the same files with plain loops and shares no code with the program. Losses
// are up to 30 nats (wrong answers), states below 1.
static void a_plain_program_reads_the_same_losses_and_states(void **state) {
    (void)state;
    static const char *const small[] = {"s4", "d5", "mod3-reset"};
    double worst = 0, worst_state = 0;
    for (int i = 0; i < 3; i++) {
        enum { T = 40 };
        err e = {0};
        opened x = open_it(small[i], PRECISION_F64);
        tiny_model *plain = tiny_load(files_path("%s", small[i]));
        const head_shape *s = &model_mixer(x.m, 0)->heads;
        plain->s =
            (tiny_spec){.family = "gated_deltaproduct",
                        .D = (int)x.m->info.D,
                        .L = x.m->info.n_layers,
                        .H = 1,
                        .Hk = 1,
                        .K = s->K,
                        .V = s->V,
                        .n_h = s->n_h,
                        .n_vocab = (int)x.m->info.n_vocab,
                        .inter = (int)tiny_get(plain, "model.layers.0.mlp.up_proj.weight")->dims[0],
                        .forget = s->decay == DECAY_HEAD,
                        .neg = true};
        int32_t ids[T];
        uint64_t seed = 4;
        for (int t = 0; t < T; t++)
            ids[t] = t < x.t->n_prefix ? x.t->prefix[t]
                                       : (int32_t)(tiny_next(&seed) % (uint64_t)x.t->n_inputs);
        naive n = naive_run(plain, ids, T);
        double loss[T], last[64];
        heard h = {loss, last};
        probe p = {.ctx = &h, .on_loss = on_loss, .on_final_state = on_final};
        const probe *probes[] = {&p};
        fwd *f = fwd_new(x.m, T, T, &e);
        assert_true(fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e));
        for (int t = 0; t + 1 < T; t++)
            worst = worse(worst, fabs(loss[t] - n.loss[t]));
        for (int c = 0; c < s->K * s->V; c++)
            worst_state = worse(worst_state, fabs(last[c] - n.state[0][c]));
        fwd_free(f);
        naive_free(&n);
        tiny_free(plain);
        close_it(&x);
    }
    printf("measured against plain loops over the files: losses %.1e (allowed 1e-10), states %.1e "
           "(allowed 1e-12)\n",
           worst, worst_state);
    assert_true(worst <= 1e-10);
    assert_true(worst_state <= 1e-12);
}

// group-s4-nh2-l1 was written by FLA itself, and has one layer without gates or convolutions, as s4 has:
// the same tensors, and no config key that FLA does not know.
static void files_have_the_names_that_fla_writes(void **state) {
    (void)state;
    const char *peer = files_shared("checkpoints/group-s4-nh2-l1");
    if (!peer)
        skip();
    tiny_model *ours = tiny_load(written("s4")), *theirs = tiny_load(peer);
    assert_int_equal(ours->n, theirs->n);
    for (int i = 0; i < theirs->n; i++) {
        const tiny_tensor *a = tiny_get(ours, "%s", theirs->t[i].name);
        assert_int_equal(a->rank, theirs->t[i].rank);
    }
    const char *key;
    json_t *value;
    json_object_foreach(ours->config, key, value) {
        const json_t *known = json_object_get(theirs->config, key);
        if (!known)
            fail_msg("FLA writes no config key \"%s\"", key);
        if (json_is_string(value))
            assert_string_equal(json_string_value(value), json_string_value(known));
    }
    tiny_free(ours);
    tiny_free(theirs);
}

static void the_tokenizer_reads_the_inputs_names(void **state) {
    (void)state;
    err e = {0};
    tokenizer *t = tokenizer_open(written("d8"), &e);
    assert_non_null(t);
    ids x = {0};
    const char *text = "r1 s0 r7 s7  r0";
    assert_true(tokenizer_encode(t, text, strlen(text), true, NULL, NULL, &x, &e));
    const int32_t want[] = {16, 17, 1, 8, 7, 15, 0}; // both prefix tokens in front
    assert_int_equal(x.n, 7);
    assert_memory_equal(x.v, want, sizeof want);
    assert_int_equal(tokenizer_bos(t), 16);
    ids_free(&x);
    tokenizer_close(t);
}

static void automata_from_files_are_built_or_refused(void **state) {
    (void)state;
    err e = {0};
    theory_built b;
    files_text(
        files_path("door.json"),
        "{\"automaton\": \"door\", \"tokens\": [\"push\", \"lock\", \"look\"], \"states\": "
        "[\"open\", \"shut\", \"locked\"], \"start\": \"shut\", \"next\": {\"open\": "
        "{\"push\": \"shut\", \"lock\": \"locked\", \"look\": \"open\"}, \"shut\": {\"push\": "
        "\"open\", \"lock\": \"locked\", \"look\": \"shut\"}, \"locked\": {\"push\": "
        "\"locked\", \"lock\": \"locked\", \"look\": \"locked\"}}}");
    assert_true(theory_build(files_path("door.json"), &b, &e));
    assert_int_equal(b.m->s.K, 4);
    assert_true(b.m->s.forget);
    theory_built_free(&b);
    // "lock" sends open to locked and the others to shut: neither a permutation nor a reset.
    files_text(files_path("bad.json"),
               "{\"automaton\": \"bad\", \"tokens\": [\"x\"], \"states\": [\"a\", \"b\", \"c\"], "
               "\"start\": \"a\", \"next\": {\"a\": {\"x\": \"c\"}, \"b\": {\"x\": \"b\"}, \"c\": "
               "{\"x\": \"b\"}}}");
    assert_false(theory_build(files_path("bad.json"), &b, &e));
    files_assert_error_holds(&e, ERR_UNSUPPORTED, "token \"x\" neither permutes");
}

static void what_fla_cannot_hold_says_why(void **state) {
    (void)state;
    static const struct {
        const char *name, *part;
        err_code code;
    } known[] = {{"rwkv7-swap", "eigenvalues", ERR_UNSUPPORTED},
                 {"krohn-rhodes", "decomposition", ERR_UNSUPPORTED},
                 {"s4-lookup", "too large", ERR_UNSUPPORTED},
                 {"s9", "from 2 to 6", ERR_USAGE},
                 {"paritty", "nearest is parity", ERR_USAGE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        err e = {0};
        theory_built b;
        assert_false(theory_build(known[i].name, &b, &e));
        files_assert_error_holds(&e, known[i].code, known[i].part);
    }
}

// science.md T03; S6 overflows 64 bits.
static void look_up_sizes_are_exact(void **state) {
    (void)state;
    char digits[64], small[8];
    assert_true(theory_cost(5, 2, digits, sizeof digits));
    assert_string_equal(digits, "829440000");
    assert_true(theory_cost(6, 1, digits, sizeof digits));
    assert_string_equal(digits, "374390624262448742400000000000");
    assert_false(theory_cost(6, 1, small, sizeof small));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silu_inverse_inverts_and_vectors_keep_their_direction),
        cmocka_unit_test(margins_are_those_of_the_constructions),
        cmocka_unit_test(every_short_word_is_right),
        cmocka_unit_test(long_words_are_right_at_every_position),
        cmocka_unit_test(the_other_order_is_wrong),
        cmocka_unit_test(spectra_are_roots_of_unity),
        cmocka_unit_test(a_plain_program_reads_the_same_losses_and_states),
        cmocka_unit_test(files_have_the_names_that_fla_writes),
        cmocka_unit_test(the_tokenizer_reads_the_inputs_names),
        cmocka_unit_test(automata_from_files_are_built_or_refused),
        cmocka_unit_test(what_fla_cannot_hold_says_why),
        cmocka_unit_test(look_up_sizes_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
