// The dashboard on a real terminal (a pty of ours): start, keys, signals, sizes, ends. Whatever way
// it goes, the terminal's modes afterwards are those before, and what was switched on is off again
// (faults B94, B96, B97; dashboard checks 11, 18 to 22).
//
// With DELTOP_LATENCY=SECONDS it measures instead: first frame, and the answer to keys while a long
// document is read (scripts/dash_latency.sh).
#include "tests/files.h"
#include "tests/pty.h"
#include "tests/run.h"
#include "tests/tiny_model.h"

#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define TEXT  "examples/text_kjv.txt"

static const char *const brief[] = {MODEL, TEXT, "--length", "512", NULL};
static const char *const lengthy[] = {MODEL, TEXT, NULL};

// The last places of these sequences in the output; -1: never.
static long last(const pty *p, const char *s) {
    long at = -1;
    size_t k = strlen(s);
    for (const char *c = p->out; c && (c = memmem(c, p->n - (size_t)(c - p->out), s, k)); c += k)
        at = (long)(c - p->out);
    return at;
}

static void restored(const pty *p, const char *what) {
    if (!pty_modes_as_before(p))
        fail_msg("%s: modes of the terminal differ", what);
    long on = last(p, "\033[?1049h"), off = last(p, "\033[?1049l");
    if (on < 0 || off < on)
        fail_msg("%s: the alternate screen is still on", what);
    if (last(p, "\033[?25h") < on && last(p, "\033[?12l\033[?25h") < on &&
        last(p, "\033[34h\033[?25h") < on)
        fail_msg("%s: the cursor stays hidden", what);
    if (last(p, "\033[?1000h") >= 0 && last(p, "\033[?1000l") < last(p, "\033[?1000h"))
        fail_msg("%s: mouse reporting stays on", what);
}

static void keys_leave_and_the_terminal_is_as_before(void **state) {
    (void)state;
    static const char *const how[] = {"q", "\033[21~" /* F10 */, ":quit\r"};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        pty p = pty_start(brief, NULL, 24, 80);
        assert_true(pty_until(&p, "heads", 0, 10));
        pty_send(&p, how[i]);
        pty_end(&p, 10);
        assert_int_equal(p.code, 0);
        restored(&p, how[i]);
        pty_free(&p);
    }
}

// B94, termusic#159: a computation never owns the keyboard.
static void interrupt_cancels_a_second_one_leaves_with_130(void **state) {
    (void)state;
    pty p = pty_start(lengthy, NULL, 30, 100);
    assert_true(pty_until(&p, "forward", 0, 10));
    pty_listen(&p, 0.3);
    size_t at = p.n;
    pty_send(&p, "\003\f"); // painted whole: what stood there may share letters with the answer
    assert_true(pty_until(&p, "stopped", at, 5));
    at = p.n;
    pty_send(&p, "3"); // alive: the focus moves
    assert_true(pty_until(&p, "loss", at, 5));
    pty_send(&p, "\003");
    pty_end(&p, 10);
    assert_int_equal(p.code, 130);
    restored(&p, "^C ^C");
    pty_free(&p);
}

// B96
static void every_signal_gives_the_terminal_back(void **state) {
    (void)state;
    static const int sig[] = {SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU,
                              SIGALRM, SIGABRT, SIGSEGV, SIGBUS,  SIGFPE};
    for (size_t i = 0; i < sizeof sig / sizeof *sig; i++) {
        pty p = pty_start(lengthy, NULL, 24, 80);
        char what[32];
        assert_true(pty_until(&p, "forward", 0, 10));
        pty_listen(&p, 0.2);
        kill(p.pid, sig[i]);
        pty_end(&p, 10);
        snprintf(what, sizeof what, "signal %d", sig[i]);
        if (p.ended_by != sig[i] && !getenv("ASAN_OPTIONS"))
            fail_msg("%s: ended by %d, code %d", what, p.ended_by, p.code);
        restored(&p, what);
        pty_free(&p);
    }
}

static void a_closed_terminal_is_a_hangup(void **state) {
    (void)state;
    pty p = pty_start(lengthy, NULL, 24, 80);
    assert_true(pty_until(&p, "forward", 0, 10));
    close(p.slave);
    close(p.master);
    p.master = p.slave = -1;
    pty_end(&p, 10);
    assert_int_equal(p.code, -1);
    assert_int_equal(p.ended_by, SIGHUP);
    free(p.out);
}

// All bytes of an array file.
static char *bytes_of(const char *path, size_t *n) {
    char *b = files_read(path, n);
    assert_true(*n > 128); // more than its header
    return b;
}

// B96, check 19: stopped and continued three times while computing; the losses and states are those
// of a run that nobody touched, to the bit.
static void a_stop_gives_the_terminal_back_and_a_continue_paints_again(void **state) {
    (void)state;
    static const char *const panels[] = {"loss", "state"};
    static const char *const words[] = {MODEL, TEXT, "--length", "8k", NULL};
    char disturbed[2][600], calm[2][600], line[2000], script[3000] = "wait idle\n";
    pty p = pty_start(words, NULL, 24, 80);
    assert_true(pty_until(&p, "forward", 0, 10));
    for (int i = 0; i < 3; i++) {
        kill(p.pid, SIGTSTP);
        pty_listen(&p, 0.3);
        assert_true(pty_modes_as_before(&p));
        size_t at = p.n;
        kill(p.pid, SIGCONT);
        assert_true(pty_until(&p, "heads", at, 5)); // everything again
        assert_false(pty_modes_as_before(&p));
    }
    assert_true(last(&p, "forward done") < 0); // it was computing all the time
    assert_true(pty_until(&p, "forward done", 0, 60));
    for (int i = 0; i < 2; i++) {
        snprintf(disturbed[i], sizeof disturbed[i], "%s", files_path("%s-stopped.npy", panels[i]));
        snprintf(calm[i], sizeof calm[i], "%s", files_path("%s-calm.npy", panels[i]));
        snprintf(line, sizeof line, ":panel %s\r:data %s\r", panels[i], disturbed[i]);
        pty_send(&p, line);
        for (int k = 0; k < 100 && access(disturbed[i], F_OK) != 0; k++)
            pty_listen(&p, 0.1);
        snprintf(script + strlen(script), sizeof script - strlen(script),
                 "cmd panel %s\ncmd data %s\n", panels[i], calm[i]);
    }
    pty_send(&p, "q");
    pty_end(&p, 10);
    assert_int_equal(p.code, 0);
    restored(&p, "TSTP, CONT");
    pty_free(&p);
    char play[600];
    snprintf(play, sizeof play, "%s", files_path("calm.play"));
    files_text(play, script);
    const char *argv[] = {"view", MODEL, TEXT, "--length", "8k", "--play", play, NULL};
    run r = {.argv = argv, .timeout = 120};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    run_free(&r);
    for (int i = 0; i < 2; i++) {
        size_t n, m;
        char *x = bytes_of(disturbed[i], &n), *y = bytes_of(calm[i], &m);
        if (n != m || memcmp(x, y, n) != 0)
            fail_msg("%s: %zu and %zu bytes differ after three stops", panels[i], n, m);
        printf("    measured: %s: %zu bytes, none differs\n", panels[i], n);
        free(x);
        free(y);
    }
}

static int count(const pty *p, size_t from, const char *s) {
    int n = 0;
    for (const char *c = p->out + from; (c = strstr(c, s)); c += strlen(s))
        n++;
    return n;
}

// What a resize brings into view is computed, also when nothing else happens any more: the eigenvalues, which a screen of
// five rows does not show, and the text.
static void a_panel_that_a_resize_brings_is_computed(void **state) {
    (void)state;
    static const char *const words[] = {MODEL, TEXT,       "--length", "512", "--at",
                                        "300", "--panels", "1,4,5",    NULL};
    pty p = pty_start(words, NULL, 5, 80);
    assert_true(pty_until(&p, "done", 0, 20));
    while (pty_listen(&p, 2) > 0) // until all is computed that is to be seen
        ;
    assert_false(pty_until(&p, "complex", 0, 0.1));
    size_t from = p.n;
    pty_resize(&p, 40, 120);
    assert_true(pty_until(&p, "complex", from, 10));
    pty_send(&p, "q");
    pty_end(&p, 10);
    pty_free(&p);
}

// B97, check 20. A frame of another size begins with an empty screen, so these are the frames.
static void two_hundred_resizes_while_computing(void **state) {
    (void)state;
    uint64_t seed = 7;
    pty p = pty_start(lengthy, NULL, 24, 80);
    assert_true(pty_until(&p, "forward", 0, 10));
    double begun = files_seconds();
    size_t first = p.n;
    for (int i = 0; i < 200; i++) {
        pty_resize(&p, 1 + (int)(tiny_next(&seed) % 70), 1 + (int)(tiny_next(&seed) % 220));
        pty_listen(&p, 0.02);
    }
    double took = files_seconds() - begun;
    int frames = count(&p, first, "\033[2J");
    printf("    measured: %d frames for 200 sizes in %.1f s\n", frames, took);
    assert_true(frames >= 5 && frames <= 12 * took); // 60 in 5 s; a slow machine takes longer
    pty_resize(&p, 24, 80);
    size_t at = p.n;
    pty_send(&p, "\f"); // paint everything
    assert_true(pty_until(&p, "quit", at, 5));
    pty_send(&p, "q");
    pty_end(&p, 10);
    assert_int_equal(p.code, 0);
    restored(&p, "resizes");
    pty_free(&p);
}

// B94: what TERM says; exit status, and a line on standard error that names it.
static void terminals_that_cannot_get_text(void **state) {
    (void)state;
    static const char *const bad[] = {"TERM=dumb", "TERM=", "TERM", "TERM=no-such-terminal",
                                      "TERM=foo"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *env[] = {bad[i], NULL};
        pty p = pty_start(brief, env, 24, 80);
        pty_end(&p, 20);
        assert_int_equal(p.code, 0);
        assert_non_null(strstr(p.out, "mean loss"));
        assert_non_null(strstr(p.out, "TERM"));
        assert_null(strchr(p.out, '\033'));
        assert_true(pty_modes_as_before(&p));
        pty_free(&p);
    }
    const char *insist[] = {MODEL, TEXT, "--length", "512", "--tui", NULL};
    const char *dumb[] = {"TERM=dumb", NULL};
    pty p = pty_start(insist, dumb, 24, 80);
    pty_end(&p, 20);
    assert_int_equal(p.code, 2);
    pty_free(&p);
}

// A sequence that chooses a colour.
static bool coloured(const pty *p) {
    for (size_t i = 0; i + 3 < p->n; i++)
        if (p->out[i] == '\033' && p->out[i + 1] == '[') {
            size_t k = i + 2;
            while (k < p->n && (isdigit((unsigned char)p->out[k]) || p->out[k] == ';'))
                k++;
            if (k < p->n && p->out[k] == 'm') {
                char parts[64];
                snprintf(parts, sizeof parts, ";%.*s;", (int)(k - i - 2), p->out + i + 2);
                if (strstr(parts, ";38;") || strstr(parts, ";48;"))
                    return true;
                for (int c = 30; c <= 47; c++) {
                    char one[8];
                    snprintf(one, sizeof one, ";%d;", c);
                    if (c != 39 && strstr(parts, one))
                        return true;
                }
            }
        }
    return false;
}

static void terminals_that_can_start_and_leave(void **state) {
    (void)state;
    // The rows of the design's table (section 6) that Debian's ncurses-base has.
    static const char *const good[] = {
        "TERM=xterm", "TERM=screen-256color", "TERM=tmux-256color", "TERM=screen", "TERM=rxvt",
        "TERM=vt100", "TERM=vt220",           "TERM=xterm-mono",    "TERM=ansi",   "TERM=linux"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        // For TERM=linux ncurses loads libgpm, asks it for a mouse and unloads it: ten bytes of it stay
        // behind, and no suppression can name a library that is gone. Leaks of ours show in the others.
        bool console = strcmp(good[i], "TERM=linux") == 0;
        const char *env[] = {good[i], console ? "ASAN_OPTIONS=detect_leaks=0" : NULL, NULL};
        pty p = pty_start(brief, env, 24, 80);
        if (!pty_until(&p, "heads", 0, 10)) {
            printf("    SKIP: %s is not in this terminfo\n", good[i]);
        } else {
            pty_send(&p, "q");
        }
        pty_end(&p, 10);
        assert_int_equal(p.code, 0);
        assert_true(pty_modes_as_before(&p));
        if (strstr(good[i], "mono") || strstr(good[i], "=vt"))
            assert_false(coloured(&p));
        pty_free(&p);
    }
}

// B98
static void no_color_means_none_and_M_means_no_mouse(void **state) {
    (void)state;
    const char *env[] = {"NO_COLOR=1", NULL};
    const char *no_mouse[] = {MODEL, TEXT, "--length", "512", "-M", NULL};
    for (int i = 0; i < 2; i++) {
        pty p = pty_start(i ? brief : no_mouse, i ? env : NULL, 30, 100);
        assert_true(pty_until(&p, "forward done", 0, 20));
        pty_listen(&p, 0.3);
        pty_send(&p, "q");
        pty_end(&p, 10);
        if (i)
            assert_false(coloured(&p));
        else
            assert_true(coloured(&p) && last(&p, "\033[?1000h") < 0);
        pty_free(&p);
    }
}

// B95
static void outside_utf8_every_byte_is_ascii(void **state) {
    (void)state;
    static const char *const locales[] = {"LC_ALL=C", "LC_ALL=POSIX", "LC_ALL"};
    for (int i = 0; i < 3; i++) {
        const char *env[] = {locales[i], "LANG", "LC_CTYPE", NULL};
        pty p = pty_start(brief, env, 40, 120);
        assert_true(pty_until(&p, "forward done", 0, 20));
        pty_listen(&p, 0.3);
        pty_send(&p, "q");
        pty_end(&p, 10);
        for (size_t k = 0; k < p.n; k++)
            if ((unsigned char)p.out[k] >= 0x80)
                fail_msg("%s: byte %02x", locales[i], (unsigned char)p.out[k]);
        pty_free(&p);
    }
}

static void idle_screens_stay_silent(void **state) {
    (void)state;
    pty p = pty_start(brief, NULL, 30, 100);
    assert_true(pty_until(&p, "forward done", 0, 20));
    pty_listen(&p, 4); // messages leave the key bar after three seconds
    size_t n = pty_listen(&p, 10);
    printf("    measured: %zu bytes in 10 idle seconds\n", n);
    assert_int_equal(n, 0);
    pty_send(&p, "q");
    pty_end(&p, 10);
    pty_free(&p);
}

// What a command prints, NULL when it fails; free it.
static char *output_of(const char *command) {
    char *text = calloc(1, 1 << 20);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
    text[n] = 0;
    if (f && pclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

// Check 20: a real terminal that was resized while computing shows the frame of --snapshot, but for
// rates and messages.
static void the_screen_of_a_terminal_is_the_snapshot(void **state) {
    (void)state;
    char command[2000], *screen = NULL;
    if (system("command -v tmux >/dev/null 2>&1") != 0) {
        printf("    SKIP: no tmux\n");
        skip();
    }
    static const char words[] = MODEL " " TEXT " --length 4k --at 2000 --panels 1,2,3,4,5";
    static const char *const tmux = "tmux -L deltop-test -f /dev/null";
    snprintf(
        command, sizeof command,
        "%s -u new-session -d -x 150 -y 45 'LC_ALL=C.UTF-8 TERM=screen-256color XDG_STATE_HOME=%s "
        "DELTOP_CONFIG=/dev/null %s %s' 2>/dev/null",
        tmux, files_folder(), run_program_path(), words);
    if (system(command) != 0) {
        printf("    SKIP: tmux does not start\n");
        skip();
    }
    for (int i = 0; i < 30; i++) {
        snprintf(command, sizeof command, "%s resize-window -x %d -y %d", tmux, 30 + 7 * i,
                 5 + 2 * i);
        assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "%s resize-window -x 80 -y 24", tmux);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s -u capture-pane -p", tmux);
    double end = files_seconds() + 40;
    bool done = false;
    while (!done && files_seconds() < end) {
        free(screen);
        usleep(300000);
        screen = output_of(command);
        done = screen && strstr(screen, "erank 1/4 ") && strstr(screen, "complex");
    }
    usleep(500000); // the frame that was under way
    free(screen);
    screen = output_of(command);
    snprintf(command, sizeof command, "%s kill-server", tmux);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
             "LC_ALL=C.UTF-8 DELTOP_CONFIG=/dev/null %s %s --snapshot 24x80", run_program_path(),
             words);
    char *frame = output_of(command);
    assert_true(done && screen && frame);
    int row = 0, same = 0;
    for (const char *a = screen, *b = frame; *a && *b; row++) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        bool equal = n == m && memcmp(a, b, n) == 0;
        same += equal;
        if (!equal && row != 1 && row != 23)
            fail_msg("row %d:\n%.*s\n%.*s", row, (int)n, a, (int)m, b);
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    printf("    measured: %d of %d rows the same as the snapshot's\n", same, row);
    assert_int_equal(row, 24);
    free(screen);
    free(frame);
}

// A walk over all keys; under the sanitizers this is check "200-key random walk".
static void two_hundred_random_keys(void **state) {
    (void)state;
    static const char *const keys[] = {"h",
                                       "j",
                                       "k",
                                       "l",
                                       "H",
                                       "L",
                                       "g",
                                       "G",
                                       "\t",
                                       "\033[Z",
                                       "0",
                                       "1",
                                       "2",
                                       "3",
                                       "4",
                                       "5",
                                       "6",
                                       "7",
                                       "8",
                                       "9",
                                       "\r",
                                       "+",
                                       "-",
                                       "_",
                                       "(",
                                       ")",
                                       "v",
                                       "a",
                                       "y",
                                       "s",
                                       "d",
                                       "c",
                                       "i",
                                       "m",
                                       "M",
                                       "J",
                                       "K",
                                       " ",
                                       "U",
                                       "t",
                                       "<",
                                       ">",
                                       "I",
                                       "n",
                                       "N",
                                       "w",
                                       "W",
                                       "x",
                                       "X",
                                       "Z",
                                       "Z",
                                       "R",
                                       "Y",
                                       "o",
                                       "?",
                                       "e",
                                       "b",
                                       "F",
                                       "`",
                                       "[",
                                       "]",
                                       "\033",
                                       "\f",
                                       "\033[A",
                                       "\033[B",
                                       "\033[5~",
                                       "\033[6~",
                                       "/the\r",
                                       ":50%\r",
                                       "\\erank>3\r",
                                       ":nonsense\r",
                                       ":goto 99999999999\r",
                                       "\022",
                                       "D\033",
                                       ":view 10 60\r",
                                       "\033[M !!",
                                       "\033[<0;10;10M",
                                       "\033[<64;60;9M",
                                       "\033[<0;30;12m"};
    uint64_t seed = 11;
    char dir[600];
    snprintf(dir, sizeof dir, "%s/walk.ini", files_folder());
    pty p = pty_start(
        (const char *const[]){MODEL, "examples/small-deltanet", TEXT, "--length", "2k", NULL}, NULL,
        34, 110);
    assert_true(pty_until(&p, "heads", 0, 20));
    for (int i = 0; i < 200; i++) {
        pty_send(&p, keys[tiny_next(&seed) % (sizeof keys / sizeof *keys)]);
        if (i % 20 == 19)
            pty_resize(&p, 1 + (int)(tiny_next(&seed) % 60), 1 + (int)(tiny_next(&seed) % 160));
        pty_listen(&p, 0.01 + 0.02 * (double)(tiny_next(&seed) % 2));
    }
    pty_resize(&p, 24, 80);
    pty_listen(&p, 0.3);
    pty_send(&p, "\033\033\033\033:quit\rq");
    pty_end(&p, 30);
    if (p.code != 0)
        fail_msg("code %d, signal %d: %s", p.code, p.ended_by,
                 p.n > 3000 ? p.out + p.n - 3000 : p.out);
    assert_null(strstr(p.out, "Sanitizer"));
    restored(&p, "random keys");
    pty_free(&p);
}

// Measuring ---------------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(double seconds) {
    const char *model = getenv("DELTOP_LATENCY_MODEL"), *text = getenv("DELTOP_LATENCY_TEXT");
    const char *argv[] = {model ? model : MODEL, text ? text : TEXT, "--length", "100000", NULL};
    double first[20], wait[4000];
    int n = 0;
    for (int i = 0; i < 20; i++) {
        double begun = files_seconds();
        pty p = pty_start(argv, NULL, 40, 120);
        assert_true(pty_until(&p, "quit", 0, 10)); // the last row of the first frame
        first[i] = files_seconds() - begun;
        pty_send(&p, "q");
        pty_end(&p, 10);
        pty_free(&p);
    }
    qsort(first, 20, sizeof *first, ascending);
    printf("    measured: first frame after exec: median %.0f ms, worst of 20 %.0f ms\n",
           1e3 * first[10], 1e3 * first[19]);
    // Characters that stand nowhere else on the screen, typed into the prompt: the frame that holds
    // one is the answer to its key.
    static const char *const keys[] = {"\u00e9", "\u00f8", "\u00df", "\u0142", "\u00fe", "\u00e5"};
    uint64_t seed = 3;
    pty p = pty_start(argv, NULL, 40, 120);
    assert_true(pty_until(&p, "forward", 0, 20));
    pty_listen(&p, 1);
    pty_send(&p, ":");
    double end = files_seconds() + seconds;
    while (files_seconds() < end && n < 4000) {
        pty_listen(&p, 0.01 + 0.001 * (double)(tiny_next(&seed) % 120));
        if (n % 60 == 59) {
            pty_send(&p, "\025"); // the line is full: empty it
            pty_listen(&p, 0.2);
        }
        const char *key = keys[n % 6];
        size_t at = p.n;
        double begun = files_seconds();
        pty_send(&p, key);
        pty_until(&p, key, at, 2);
        wait[n++] = files_seconds() - begun;
    }
    pty_send(&p, "\033");
    bool busy = memmem(p.out, p.n, "forward done", 12) == NULL;
    pty_send(&p, "q");
    pty_end(&p, 10);
    qsort(wait, (size_t)n, sizeof *wait, ascending);
    printf("    measured: %d keys%s: median %.1f ms, 99%% within %.1f ms, worst %.1f ms\n", n,
           busy ? " while the pass ran" : " (the pass ended early)", 1e3 * wait[n / 2],
           1e3 * wait[n * 99 / 100], 1e3 * wait[n - 1]);
    pty_free(&p);
}

int main(void) {
    const char *latency = getenv("DELTOP_LATENCY");
    if (latency) {
        measure(atof(latency));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_leave_and_the_terminal_is_as_before),
        cmocka_unit_test(interrupt_cancels_a_second_one_leaves_with_130),
        cmocka_unit_test(every_signal_gives_the_terminal_back),
        cmocka_unit_test(a_closed_terminal_is_a_hangup),
        cmocka_unit_test(a_stop_gives_the_terminal_back_and_a_continue_paints_again),
        cmocka_unit_test(a_panel_that_a_resize_brings_is_computed),
        cmocka_unit_test(two_hundred_resizes_while_computing),
        cmocka_unit_test(terminals_that_cannot_get_text),
        cmocka_unit_test(terminals_that_can_start_and_leave),
        cmocka_unit_test(no_color_means_none_and_M_means_no_mouse),
        cmocka_unit_test(outside_utf8_every_byte_is_ascii),
        cmocka_unit_test(idle_screens_stay_silent),
        cmocka_unit_test(the_screen_of_a_terminal_is_the_snapshot),
        cmocka_unit_test(two_hundred_random_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
