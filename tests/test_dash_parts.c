// The dashboard's pure parts: layout, cells, filters, search, head lists, the key table; and what it
// stands on: rows read in pieces, switched-off heads, the paired bootstrap.
#include "analyses/resample.h"
#include "cli/dash/clipboard.h"
#include "cli/dash/cmd.h"
#include "cli/dash/expr.h"
#include "cli/dash/find.h"
#include "cli/dash/keys.h"
#include "cli/dash/layout.h"
#include "cli/dash/settings.h"
#include "cli/head_list.h"
#include "core/forward.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Layout ------------------------------------------------------------------------------------------

static void is(rect r, int y, int x, int h, int w) {
    if (r.y != y || r.x != x || r.h != h || r.w != w)
        fail_msg("(%d,%d,%d,%d) instead of (%d,%d,%d,%d)", r.y, r.x, r.h, r.w, y, x, h, w);
}

static void rectangles_of_the_design_come_out(void **state) {
    (void)state;
    layout l = layout_make(24, 80, 0x3fe, 1, false, false);
    is(l.panel[1], 2, 0, 9, 40), is(l.panel[2], 2, 41, 9, 39);
    is(l.panel[3], 11, 0, 8, 40), is(l.panel[4], 11, 41, 8, 39), is(l.panel[5], 19, 0, 4, 80);
    assert_int_equal(l.hidden, 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9);
    l = layout_make(39, 184, 0x3fe, 1, false, true);
    is(l.panel[1], 3, 0, 15, 46), is(l.panel[9], 18, 139, 14, 45), is(l.panel[5], 32, 0, 5, 184);
    l = layout_make(30, 100, 0x3fe, 1, false, true);
    is(l.panel[6], 17, 0, 7, 50), is(l.panel[7], 17, 51, 7, 49), is(l.panel[5], 24, 0, 4, 100);
    assert_true(layout_make(7, 80, 0x3fe, 1, false, false).lines);
    assert_true(layout_make(24, 35, 0x3fe, 1, false, false).lines);
}

// B91, B92
static void panels_never_overlap_and_fill_the_body(void **state) {
    (void)state;
    uint64_t seed = 1;
    static unsigned char who[200][400];
    for (int call = 0; call < 1000000; call++) {
        int R = 1 + (int)(tiny_next(&seed) % 200), C = 1 + (int)(tiny_next(&seed) % 400);
        unsigned open = (unsigned)(tiny_next(&seed) & 0x3ff);
        int focus = (int)(tiny_next(&seed) % PANELS);
        layout l = layout_make(R, C, open, focus, tiny_next(&seed) % 4 == 0, tiny_next(&seed) % 2);
        if (l.lines) {
            assert_true(R < 8 || C < 36);
            continue;
        }
        assert_true(l.panel[focus].h > 0);
        assert_true(l.header.h + l.strip.h + l.body.h + l.message.h + l.keys.h == R);
        bool whole = call % 50 == 0; // counting every cell of some is enough
        if (whole)
            memset(who, 0, sizeof who);
        long cells = 0;
        for (int p = 0; p < PANELS; p++) {
            rect r = l.panel[p];
            if (r.h == 0)
                continue;
            assert_true(r.y >= l.body.y && r.y + r.h <= l.body.y + l.body.h && r.x >= 0 &&
                        r.x + r.w <= C);
            bool bottom = p == PANEL_TEXT || p == PANEL_MESSAGES || r.h == l.body.h;
            assert_true(bottom || (r.h >= 7 && r.w >= 35));
            cells += (long)r.h * r.w;
            for (int y = r.y; whole && y < r.y + r.h; y++)
                for (int x = r.x; x < r.x + r.w; x++)
                    assert_int_equal(who[y][x]++, 0);
        }
        for (int i = 0; i < l.n_sep; i++) {
            cells += l.sep[i].h;
            for (int y = l.sep[i].y; whole && y < l.sep[i].y + l.sep[i].h; y++)
                assert_int_equal(who[y][l.sep[i].x]++, 0);
        }
        if (cells != (long)l.body.h * C)
            fail_msg("%dx%d open %x focus %d: %ld cells of %ld", R, C, open, focus, cells,
                     (long)l.body.h * C);
    }
}

// Cells -------------------------------------------------------------------------------------------

// B87: nothing of a file reaches the terminal raw, and widths hold.
static void text_of_files_is_shown_safely(void **state) {
    (void)state;
    surface s;
    err e = {0};
    char line[256];
    assert_true(surface_open(&s, 1, 10, &e));
    const char *raw = "a\033[2J\x01\x7f\xc2\x9b\xe2\x80\xae\xff\xe6\xbd";
    surface_bytes(&s, 0, 0, 10, 0, 0, raw, strlen(raw));
    surface_line(&s, 0, line, sizeof line);
    assert_string_equal(line, "a\u00b7[2J\u00b7\u00b7\u00b7\u00b7\u00b7");
    surface_clear(&s);
    // 10 cells hold five wide characters; a sixth, or one at the last cell, is left out.
    assert_int_equal(surface_text(&s, 0, 1, 9, 0, 0, "\u6f22\u6f22\u6f22\u6f22\u6f22"), 8);
    surface_line(&s, 0, line, sizeof line);
    assert_string_equal(line, " \u6f22\u6f22\u6f22\u6f22");
    surface_put(&s, 0, 2, 'x', 0, 0); // the right half goes, and the left half with it
    surface_line(&s, 0, line, sizeof line);
    assert_string_equal(line, "  x\u6f22\u6f22\u6f22");
    assert_int_equal(surface_width("e\u0301\u6f22"), 3);
    surface_close(&s);
}

static void hints_are_whole_or_left_out(void **state) {
    (void)state;
    static const struct {
        int max;
        const char *want;
    } tries[] = {{99, "scale 0..32  t table  \\ filter"}, // 30 cells
                 {30, "scale 0..32  t table  \\ filter"},
                 {29, "scale 0..32  t table"},
                 {19, "scale 0..32"},
                 {10, "t table"},
                 {3, ""}};
    const char *const hint[] = {"scale 0..32", "t table", "\\ filter"};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        surface s;
        err e = {0};
        char line[256];
        assert_true(surface_open(&s, 1, 60, &e));
        assert_int_equal(surface_hints(&s, 0, 0, tries[i].max, 0, 0, hint, 3),
                         (int)strlen(tries[i].want));
        surface_line(&s, 0, line, sizeof line);
        assert_string_equal(line, tries[i].want);
        surface_close(&s);
    }
}

static void glyph_sets_keep_blanks_where_they_are(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp < 0x3000; cp++) {
        uint32_t a = surface_glyph(GLYPHS_ASCII, cp);
        assert_true(a < 0x80);
        if (cp > CELL_REST && cp != 0x2800)
            assert_true(a != 0 && a != ' ' ? true : cp == ' ');
        uint32_t b = surface_glyph(GLYPHS_BLOCK, cp);
        assert_true(cp == 0x2800 || (b != 0) == (cp != 0));
    }
    assert_int_equal(surface_glyph(GLYPHS_ASCII, 0x2801), '\'');
    assert_int_equal(surface_glyph(GLYPHS_ASCII, 0x2840), '.');
    assert_int_equal(surface_glyph(GLYPHS_ASCII, 0x28ff), ':');
    assert_int_equal(surface_glyph(GLYPHS_ASCII, 0x2588), '#');
    assert_int_equal(surface_glyph(GLYPHS_BLOCK, 0x28ff), 0x2588);
    assert_int_equal(surface_glyph(GLYPHS_BLOCK, 0x2803), 0x2598);
}

// Filters -----------------------------------------------------------------------------------------

static bool value(void *ctx, const char *name, double *out) {
    (void)ctx;
    *out = strcmp(name, "erank") == 0   ? 30.5
           : strcmp(name, "layer") == 0 ? 9
           : strcmp(name, "t1/2") == 0  ? NAN
                                        : 0;
    return strcmp(name, "nonsense") != 0;
}

static void filters_are_what_they_say(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int yes; // -1: an error
        int at;
    } cases[] = {{"erank>30", 1, 0},
                 {"erank > 30.5", 0, 0},
                 {"erank>=30.5", 1, 0},
                 {"layer=9 & erank<31", 1, 0},
                 {"layer!=9 | erank<31", 1, 0},
                 {"!dead", 1, 0},
                 {"!(dead | layer=9)", 0, 0},
                 {"t1/2>1", 0, 0},
                 {"t1/2!=1", 0, 0},
                 {"t1/2", 0, 0},
                 {"!t1/2", 1, 0},
                 {"layer=9 & dead | erank>1", 1, 0},
                 {"erank>", -1, 6},
                 {"erank>nonsense", -1, 6},
                 {"dead & nonsense", -1, 7},
                 {"erank>layer*3", 1, 0},
                 {"erank > -layer + 1k", 0, 0},
                 {"erank>1 & layer", 1, 0},
                 {"max(erank)>1", -1, 0},
                 {"erank & 3", -1, 8},
                 {"1<erank<3", -1, 7},
                 {"nonsense=1", -1, 0},
                 {"(erank>1", -1, 8},
                 {"erank>1)", -1, 7},
                 {"erank>1 layer", -1, 8},
                 {"erank>1e", -1, 6},
                 {"", -1, 0},
                 {"&", -1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        int at = -1;
        bool yes = false, ok = expr_eval(cases[i].text, value, NULL, &yes, &at, &e);
        if (ok != (cases[i].yes >= 0) || (ok && yes != cases[i].yes) || (!ok && at != cases[i].at))
            fail_msg("\"%s\": ok %d, %d, at %d (%s)", cases[i].text, ok, yes, at, e.text);
    }
    char deep[4000];
    memset(deep, '!', sizeof deep);
    deep[sizeof deep - 1] = 0;
    err e = {0};
    int at;
    bool yes;
    assert_false(expr_eval(deep, value, NULL, &yes, &at, &e)); // no overflow of the stack
}

// Search ------------------------------------------------------------------------------------------

static size_t hits(const char *text, const char *what, bool *cut) {
    found f;
    err e = {0};
    assert_true(find_all(text, strlen(text), what, false, &f, &e));
    size_t n = f.n;
    if (cut)
        *cut = f.cut;
    found_free(&f);
    return n;
}

static void searches_find_bytes_and_patterns(void **state) {
    (void)state;
    assert_int_equal(hits("aaaa", "aa", NULL), 2);
    assert_int_equal(hits("one two One", "one", NULL), 1);
    assert_int_equal(hits("one two One", "re:(?i)one", NULL), 2);
    assert_int_equal(hits("a\nb\nab", "re:^a", NULL), 2);
    assert_int_equal(hits("abc", "re:x*", NULL), 0); // empty matches are none
    assert_int_equal(hits("abc", "", NULL), 0);
    assert_int_equal(hits("r.e", "r.e", NULL), 1); // a dot is a dot
    err e = {0};
    found f;
    assert_false(find_all("x", 1, "re:(", false, &f, &e));
    files_assert_error_holds(&e, ERR_USAGE, "character 2");
    // A costly pattern ends.
    char *as = malloc(200001);
    memset(as, 'a', 200000);
    as[200000] = 0;
    as[199999] = 'b';
    bool cut = false;
    double begun = files_seconds();
    hits(as, "re:(a+)+$", &cut);
    printf("    measured: (a+)+$ on 200 kB given up after %.2f s\n", files_seconds() - begun);
    assert_true(files_seconds() - begun < 1);
    free(as);
}

// Heads, keys, settings ---------------------------------------------------------------------------

static void head_lists_are_read_and_named(void **state) {
    (void)state;
    head_ref v[HEAD_LIST_MOST];
    int n = 0;
    char name[64];
    err e = {0};
    assert_true(head_list_read("L9.H2,l1.h0,3.4", v, &n, &e));
    assert_int_equal(n, 3);
    assert_string_equal(head_list_name(v, n, name, sizeof name), "L9.H2+L1.H0+L3.H4");
    static const char *const bad[] = {"",     "L9",          "L9.H",  "9.2,",     ",9.2",
                                      "9.2 ", "L9.H2,L9.H2", "Lx.H1", "9999999.1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&e);
        assert_false(head_list_read(bad[i], v, &n, &e));
        assert_int_equal(e.code, ERR_USAGE);
    }
}

static void every_key_has_one_command_that_exists(void **state) {
    (void)state;
    size_t n, m;
    const key_row *rows = keys_rows(&n);
    const cmd *all = cmd_table(&m);
    char seen[128][16];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rows[i].command, " "), rows[i].command);
        if (!cmd_find(name))
            fail_msg("key %s: no command %s", rows[i].key, name);
        char keys[64];
        snprintf(keys, sizeof keys, "%s", rows[i].key);
        for (char *p = strtok(keys, " "); p; p = strtok(NULL, " ")) {
            assert_string_equal(keys_command(p), rows[i].command);
            for (size_t j = 0; j < k; j++)
                if (strcmp(seen[j], p) == 0)
                    fail_msg("key %s stands twice", p);
            snprintf(seen[k++], sizeof seen[0], "%s", p);
        }
    }
    for (size_t i = 0; i < m; i++)
        assert_ptr_equal(cmd_find(all[i].name), &all[i]); // no name twice
    // htop #600 and others: F-keys do not arrive everywhere, so each has a twin.
    for (size_t i = 0; i < n; i++)
        if (rows[i].key[0] == 'F' && rows[i].key[1])
            assert_true(strcmp(rows[i].key, "F12") == 0); // :save-options
}

// B98: a garbled settings file is told line by line and changes nothing else.
static void settings_files_that_are_wrong_are_told(void **state) {
    (void)state;
    dash d;
    const char *path = files_path("config.ini");
    dash_init(&d, NULL);
    files_text(path, "# fine\nsmooth = 51\nnonsense = 1\nglyphs = gold\nno equals sign\nbind = x\n"
                     "bind T = table\nsurprise = 1e999\nwindow = 0\nwindow = 64\n\xff\xfe = 3\n");
    settings_load(&d, path);
    assert_int_equal(d.look.smooth, 51);
    assert_int_equal(d.look.W, 64);
    assert_int_equal(d.look.glyphs, GLYPHS_BRAILLE);
    assert_int_equal(d.log.n, 7);
    assert_non_null(strstr(d.log.v[0].text, "line 3"));
    assert_string_equal(keys_command("T"), "table");
    err e = {0};
    assert_true(settings_save(&d, path, &e));
    size_t n;
    char *kept = files_read(path, &n);
    assert_non_null(strstr(kept, "bind T = table")); // stays
    assert_non_null(strstr(kept, "smooth = 51"));
    free(kept);
    dash_free(&d);
    assert_true(settings_in_group("layers.12.attn.A_log", "layers.#.attn.A_log"));
    assert_false(settings_in_group("layers.12.attn.A_log", "layers.#.attn"));
}

static void clipboards_get_base64(void **state) {
    (void)state;
    char out[64];
    size_t n = clipboard_sequence("deltop", out, sizeof out);
    assert_int_equal(n, 7 + 8 + 1);
    assert_memory_equal(out, "\033]52;c;ZGVsdG9w\a", n);
    n = clipboard_sequence("ab", out, sizeof out);
    assert_memory_equal(out, "\033]52;c;YWI=\a", n);
    n = clipboard_sequence("deltop deltop", out, 16); // whole groups of what fits
    assert_int_equal(n, 7 + 4 + 1);
    assert_memory_equal(out, "\033]52;c;ZGVs\a", n);
}

// Rows in pieces ----------------------------------------------------------------------------------

enum { T = 150 };

typedef struct seen {
    double loss[T];
    double *state[4];
} seen;

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy(((seen *)ctx)->loss + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static model *tiny(tiny_spec s, backend **be, tiny_model **t) {
    err e = {0};
    *t = tiny_new(s);
    *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open(tiny_save(*t, "tiny"), *be, &e);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

static void some_ids(int32_t *ids, int n_vocab) {
    uint64_t seed = 5;
    for (int i = 0; i < T; i++)
        ids[i] = (int32_t)(tiny_next(&seed) % (uint64_t)n_vocab);
}

// Losses of a row do not depend on how often the pass went back on the way, nor on how many layers
// it ran there: with attention over everything, over a window, and with states emptied inside.
static void going_back_changes_nothing(void **state) {
    (void)state;
    const tiny_spec specs[] = {
        {.family = "gated_deltaproduct", .n_h = 2, .conv = 4, .neg = true},
        {.family = "gated_deltanet", .conv = 4, .heads = 2, .kv = 2},
        {.family = "gated_deltanet", .conv = 4, .heads = 2, .kv = 1, .window = 8}};
    double worst = 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int resets = 0; resets < 2; resets++) {
            backend *be;
            tiny_model *t;
            err e = {0};
            model *m = tiny(specs[i], &be, &t);
            int32_t ids[T];
            int64_t starts[] = {40, 100};
            row_options how = {.reset_id = -1, .starts = starts, .n_starts = resets ? 2 : 0};
            some_ids(ids, t->s.n_vocab);
            seen plain = {0}, back = {0};
            probe p = {.ctx = &plain, .on_loss = on_loss}, q = {.ctx = &back, .on_loss = on_loss},
                  none = {0};
            const probe *a[] = {&p}, *b[] = {&q}, *c[] = {&none};
            fwd *f = fwd_new(m, 16, T, &e);
            assert_true(fwd_row(f, ids, T, &how, a, 1, NULL, NULL, &e));
            assert_true(fwd_begin(f, ids, T, &how, &e));
            fwd_point *first = fwd_point_new(f, &e), *later = NULL;
            while (fwd_tokens(f) < T) {
                assert_true(fwd_block(f, 16, m->info.n_layers, b, 1, &e));
                fwd_point *here = fwd_point_new(f, &e);
                int64_t at = fwd_tokens(f);
                assert_int_equal(fwd_point_tokens(here), at);
                assert_true(fwd_return(f, at > 60 && later ? later : first, &e));
                while (fwd_tokens(f) < at) {
                    int64_t left = at - fwd_tokens(f);
                    assert_true(
                        fwd_block(f, left < 7 ? left : 7, at % 3 ? m->info.n_layers : 1, c, 1, &e));
                }
                assert_true(fwd_return(f, here, &e));
                if (at >= 48 && !later)
                    later = here;
                else
                    fwd_point_free(here);
            }
            for (int k = 0; k + 1 < T; k++)
                worst = worse(worst, fabs(plain.loss[k] - back.loss[k]));
            fwd_point_free(first);
            fwd_point_free(later);
            fwd_free(f);
            model_free(m);
            backend_close(be);
            tiny_free(t);
        }
    printf("    measured: largest difference %.1e\n", worst);
    assert_true(worst <
                1e-12); // attention keeps rows from blocks of another length: sums of float64
}

// A head's read-out of zero is what zeros in its columns of the output projection make of it, in
// families without a gate or bias behind the read-out.
static void a_head_that_is_off_is_one_whose_output_weights_are_zero(void **state) {
    (void)state;
    backend *be;
    tiny_model *t;
    err e = {0};
    model *m = tiny((tiny_spec){.family = "delta_net", .conv = 4, .H = 3, .K = 8, .V = 8, .D = 24},
                    &be, &t);
    int32_t ids[T];
    some_ids(ids, t->s.n_vocab);
    seen off = {0}, on = {0};
    probe p = {.ctx = &off, .on_loss = on_loss}, q = {.ctx = &on, .on_loss = on_loss};
    const probe *a[] = {&p}, *b[] = {&q};
    fwd *f = fwd_new(m, 32, T, &e);
    head_ref head[] = {{1, 2}, {0, 0}};
    row_options how = {.reset_id = -1, .off = head, .n_off = 2};
    assert_true(fwd_row(f, ids, T, &how, a, 1, NULL, NULL, &e));
    assert_true(fwd_row(f, ids, T, NULL, b, 1, NULL, NULL, &e)); // the option leaves no trace
    fwd_free(f);
    naive plain = naive_run(t, ids, T);
    double same = 0;
    for (int i = 0; i + 1 < T; i++)
        same = worse(same, fabs(on.loss[i] - plain.loss[i]));
    naive_free(&plain);
    for (int k = 0; k < 2; k++) {
        tiny_tensor *w = tiny_get(t, "model.layers.%d.attn.o_proj.weight", head[k].layer);
        for (int64_t r = 0; r < w->dims[0]; r++)
            for (int c = 0; c < t->s.V; c++)
                w->v[r * w->dims[1] + head[k].head * t->s.V + c] = 0;
    }
    naive cut = naive_run(t, ids, T);
    double away = 0, change = 0;
    for (int i = 0; i + 1 < T; i++) {
        away = worse(away, fabs(off.loss[i] - cut.loss[i]));
        change = worse(change, fabs(off.loss[i] - on.loss[i]));
    }
    naive_free(&cut);
    printf("    measured: %.1e from the zeroed weights, %.1e from plain loops; largest change %.2f "
           "nats\n",
           away, same, change);
    assert_true(away < 1e-9 && same < 1e-9); // float64 sums in another order
    assert_true(change > 1e-3);
    head[0] = (head_ref){1, 3};
    assert_false(fwd_check_heads(m, head, 1, &e));
    files_assert_error_holds(&e, ERR_USAGE, "layer 1 has no head 3 (0 to 2)");
    err_clear(&e);
    head[0] = (head_ref){7, 0};
    assert_false(fwd_check_heads(m, head, 1, &e));
    files_assert_error_holds(&e, ERR_USAGE, "no layer 7");
    model_free(m);
    backend_close(be);
    tiny_free(t);
}

// The bootstrap -----------------------------------------------------------------------------------

// Means of correlated noise: the interval holds the truth about 95 times in 100 and is wider than one
// that takes neighbours for independent.
static void intervals_hold_the_truth(void **state) {
    (void)state;
    enum { N = 4096, RUNS = 200 };
    static double zero[N], x[N];
    uint64_t seed = 9;
    int held = 0, held_single = 0;
    for (int r = 0; r < RUNS; r++) {
        double ar = 0;
        for (int i = 0; i < N; i++)
            x[i] = 0.3 + (ar = 0.9 * ar + tiny_normal(&seed)); // true mean 0.3
        paired_change c, single;
        err e = {0};
        assert_true(resample_paired(zero, x, N, 0, 200, (uint64_t)r, &c, &e));
        assert_true(resample_paired(zero, x, N, 1, 200, (uint64_t)r, &single, &e));
        held += c.lo <= 0.3 && 0.3 <= c.hi;
        held_single += single.lo <= 0.3 && 0.3 <= single.hi;
        assert_int_equal(c.block, 128);
    }
    printf("    measured: %d of %d intervals hold the mean; %d with single tokens\n", held, RUNS,
           held_single);
    assert_true(held >= RUNS * 88 / 100); // 95% less what 32 blocks and 200 resamples cost
    assert_true(held_single < RUNS * 60 / 100);
}

static void changes_of_nothing_and_of_constants(void **state) {
    (void)state;
    double a[40], b[40];
    paired_change c;
    err e = {0};
    for (int i = 0; i < 40; i++)
        a[i] = i, b[i] = i + 0.25;
    assert_true(resample_paired(a, b, 40, 0, 100, 1, &c, &e));
    assert_true(c.n == 40 && c.mean == 0.25 && c.lo == 0.25 && c.hi == 0.25);
    b[3] = NAN; // left out
    assert_true(resample_paired(a, b, 40, 0, 100, 1, &c, &e));
    assert_true(c.n == 39 && c.mean == 0.25);
    assert_true(resample_paired(a, b, 0, 0, 100, 1, &c, &e));
    assert_true(c.n == 0 && isnan(c.mean) && isnan(c.lo));
    assert_true(resample_paired(a, b, 3, 0, 100, 1, &c, &e)); // too few for an interval
    assert_true(c.mean == 0.25 && isnan(c.lo));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rectangles_of_the_design_come_out),
        cmocka_unit_test(panels_never_overlap_and_fill_the_body),
        cmocka_unit_test(text_of_files_is_shown_safely),
        cmocka_unit_test(hints_are_whole_or_left_out),
        cmocka_unit_test(glyph_sets_keep_blanks_where_they_are),
        cmocka_unit_test(filters_are_what_they_say),
        cmocka_unit_test(searches_find_bytes_and_patterns),
        cmocka_unit_test(head_lists_are_read_and_named),
        cmocka_unit_test(every_key_has_one_command_that_exists),
        cmocka_unit_test(settings_files_that_are_wrong_are_told),
        cmocka_unit_test(clipboards_get_base64),
        cmocka_unit_test(going_back_changes_nothing),
        cmocka_unit_test(a_head_that_is_off_is_one_whose_output_weights_are_zero),
        cmocka_unit_test(intervals_hold_the_truth),
        cmocka_unit_test(changes_of_nothing_and_of_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
