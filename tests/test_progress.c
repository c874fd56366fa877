// The bar on a pseudo-terminal, with a clock of our own.
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/signals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static double fake_now;
static long clock_reads;
static double fake_clock(void) {
    clock_reads++;
    return fake_now;
}

typedef struct screen {
    int master, slave;
    char text[65536];
} screen;

static void screen_open(screen *s, int columns) {
    struct winsize w = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(openpty(&s->master, &s->slave, NULL, NULL, &w), 0);
    fcntl(s->master, F_SETFL, O_NONBLOCK);
}

// What was written since the last call.
static const char *screen_read(screen *s) {
    size_t n = 0;
    ssize_t k;
    while (n + 1 < sizeof s->text && (k = read(s->master, s->text + n, sizeof s->text - 1 - n)) > 0)
        n += (size_t)k;
    s->text[n] = 0;
    return s->text;
}

static void screen_close(screen *s) {
    close(s->master);
    close(s->slave);
}

static void begin(progress *p, screen *s, int phases) {
    progress_begin(p, "loss m", phases, s->slave);
    p->clock = fake_clock;
    p->begun = p->phase_begun = p->checked = p->drawn = fake_now = 100;
    progress_phase(p, "tokens");
}

static void the_line_never_exceeds_its_width(void **state) {
    (void)state;
    progress p = {.title = "loss caf\xc3\xa9-model", .unit = "tokens", .phase = 2, .phases = 3};
    for (int width = 0; width <= 200; width++) { // B92 among them: 1, 2, 3 columns
        static const int64_t done[] = {0, 1, 500, 1000, 2000, -5, INT64_MAX};
        static const int64_t total[] = {1000, 0, -1, INT64_MAX};
        for (size_t i = 0; i < 7; i++)
            for (size_t j = 0; j < 4; j++) {
                char buf[1024];
                int n = progress_line(&p, done[i], total[j], 2.5, width, buf, sizeof buf);
                int columns = 0;
                for (const char *c = buf; *c; c++)
                    columns += ((unsigned char)*c & 0xc0) != 0x80;
                assert_int_equal(n, columns);
                assert_true(columns <= width);
            }
    }
    char tiny[4];
    progress_line(&p, 1, 2, 1, 80, tiny, sizeof tiny);
    assert_int_equal(strlen(tiny), 3);
}

static void the_line_shows_share_rate_and_time_left(void **state) {
    (void)state;
    progress p = {.title = "loss m", .unit = "tokens", .phase = 2, .phases = 3};
    char buf[256];
    progress_line(&p, 250, 1000, 10, 100, buf, sizeof buf);
    assert_string_equal(buf, "loss m [2/3]  25% [##########..............................] "
                             "25.0 tokens/s 0:30 left");
    progress_line(&p, 12345678, 0, 1000, 100, buf, sizeof buf);
    assert_string_equal(buf, "loss m [2/3] 12.3k tokens/s"); // how much is left is not known
    progress_line(&p, 1, 100000000, 10, 100, buf, sizeof buf);
    assert_non_null(strstr(buf, "over 99 h"));
}

static void a_short_job_shows_nothing(void **state) {
    (void)state;
    screen s;
    screen_open(&s, 80);
    progress p;
    begin(&p, &s, 1);
    for (int i = 0; i < 90; i++) {
        fake_now += 0.01;
        assert_true(progress_tick(&p, i, 90));
    }
    progress_end(&p);
    assert_string_equal(screen_read(&s), "");
    screen_close(&s);
}

static void a_long_job_shows_a_bar_and_leaves_a_clean_line(void **state) {
    (void)state;
    screen s;
    screen_open(&s, 60);
    progress p;
    begin(&p, &s, 2);
    assert_int_equal(p.mode, PROGRESS_BAR);
    for (int i = 0; i < 300; i++) {
        fake_now += 0.01;
        progress_tick(&p, i, 300);
    }
    const char *text = screen_read(&s);
    assert_non_null(strstr(text, "loss m [1/2]"));
    assert_non_null(strstr(text, "tokens/s"));
    assert_null(strchr(text, '\n'));
    assert_null(strchr(text, '\033')); // NO_COLOR and TERM=foo need nothing special
    int frames = 0;
    for (const char *c = text; (c = strchr(c, '\r')); c++)
        frames++;
    printf("measured %d frames in 2 s of progress\n", frames);
    assert_in_range(frames, 5, 21); // ten a second at most
    progress_end(&p);
    text = screen_read(&s);
    assert_true(text[0] == '\r' && text[strlen(text) - 1] == '\r');
    assert_int_equal(strspn(text + 1, " "), strlen(text) - 2);
    screen_close(&s);
}

static void a_fast_loop_rarely_reads_the_clock(void **state) {
    (void)state;
    screen s;
    screen_open(&s, 80);
    progress p;
    begin(&p, &s, 1);
    clock_reads = 0;
    for (int i = 0; i < 10000000; i++) {
        fake_now += 1e-6; // ten seconds in all
        progress_tick(&p, i, 10000000);
    }
    printf("measured %ld clock reads in 1e7 calls over 10 s\n", clock_reads);
    // At most one call in 64, apart from the start: 25 ns of a clock read shared by 64 calls.
    assert_in_range(clock_reads, 100, 10000000 / 64 + 100);
    progress_end(&p);
    screen_close(&s);
}

static void a_loop_that_becomes_slow_is_still_drawn(void **state) {
    (void)state;
    screen s;
    screen_open(&s, 80);
    progress p;
    begin(&p, &s, 1);
    for (int i = 0; i < 100000; i++) {
        fake_now += 1e-6;
        progress_tick(&p, i, 100100);
    }
    screen_read(&s);
    // The stride is large by now; the steps suddenly take half a second.
    int calls = 0;
    while (!screen_read(&s)[0] && calls < 100000) {
        fake_now += 0.5;
        progress_tick(&p, 100000, 100100);
        calls++;
    }
    printf("measured %d slow calls until the bar moves\n", calls);
    assert_in_range(calls, 1, 64); // the largest stride
    progress_end(&p);
    screen_close(&s);
}

static void a_dumb_terminal_gets_lines_five_seconds_apart(void **state) {
    (void)state;
    static const char *const terms[] = {"dumb", "", NULL}; // B94
    for (int k = 0; k < 3; k++) {
        if (terms[k])
            setenv("TERM", terms[k], 1);
        else
            unsetenv("TERM");
        screen s;
        screen_open(&s, 80);
        progress p;
        begin(&p, &s, 1);
        assert_int_equal(p.mode, PROGRESS_LINES);
        for (int i = 0; i < 120; i++) {
            fake_now += 0.1;
            progress_tick(&p, i, 120);
        }
        progress_end(&p);
        const char *text = screen_read(&s);
        int lines = 0;
        for (const char *c = text; (c = strchr(c, '\n')); c++)
            lines++;
        assert_int_equal(lines, 2); // after 5 and 10 of 12 seconds
        screen_close(&s);
    }
    setenv("TERM", "xterm", 1);
}

static void quiet_and_pipes_show_nothing(void **state) {
    (void)state;
    screen s;
    screen_open(&s, 80);
    progress p;
    say_set_quiet(true);
    begin(&p, &s, 1);
    say_set_quiet(false);
    assert_int_equal(p.mode, PROGRESS_OFF);
    progress_end(&p);
    screen_close(&s);
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    progress_begin(&p, "x", 1, fd[1]);
    assert_int_equal(p.mode, PROGRESS_OFF);
    progress_end(&p);
    close(fd[0]);
    close(fd[1]);
}

static void a_signal_cancels_even_without_a_terminal(void **state) {
    (void)state;
    progress p;
    int fd = open("/dev/null", O_WRONLY);
    progress_begin(&p, "x", 1, fd);
    assert_true(progress_tick(&p, 1, 2));
    signals_install();
    raise(SIGTERM);
    assert_int_equal(signals_caught(), SIGTERM);
    assert_false(progress_tick(&p, 1, 2));
    assert_int_equal(say_exit_code(ERR_CANCELLED), 128 + SIGTERM);
    progress_end(&p);
    close(fd);
}

int main(void) {
    setenv("TERM", "xterm", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_never_exceeds_its_width),
        cmocka_unit_test(the_line_shows_share_rate_and_time_left),
        cmocka_unit_test(a_short_job_shows_nothing),
        cmocka_unit_test(a_long_job_shows_a_bar_and_leaves_a_clean_line),
        cmocka_unit_test(a_fast_loop_rarely_reads_the_clock),
        cmocka_unit_test(a_loop_that_becomes_slow_is_still_drawn),
        cmocka_unit_test(a_dumb_terminal_gets_lines_five_seconds_apart),
        cmocka_unit_test(quiet_and_pipes_show_nothing),
        cmocka_unit_test(a_signal_cancels_even_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
