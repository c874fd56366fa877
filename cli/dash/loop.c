#include "cli/dash/loop.h"

#include "cli/dash/clipboard.h"
#include "cli/dash/gpu_strip.h"
#include "cli/dash/screen.h"
#include "cli/dash/session_file.h"
#include "cli/dash/tty_signals.h"
#include "cli/signals.h"
#include "core/outfile.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Frames that nobody asked for by a key come at most so often.
#define FRAME_SECONDS 0.1
#define RATE_SECONDS  2.0
enum { RATE_SAMPLES = 64 };

typedef struct rate {
    double at[RATE_SAMPLES];
    int64_t read[RATE_SAMPLES];
    int n;
    const run *of;
    double begun, ended;
} rate;

typedef struct looper {
    app *a;
    double began, last_frame, sampled;
    bool dirty; // something changed since the last frame
    rate rate;
    gpu_strip *gpu;
    bool gpu_tried;
    // Mouse: where and when the button went down
    int press_y, press_x;
    double pressed, clicked;
} looper;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool loop_possible(char *why, size_t size) {
    why[0] = 0;
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return false;
    return screen_possible(why, size);
}

static int colours(const app *a) {
    const char *none = getenv("NO_COLOR");
    if (a->v->no_color || a->v->color == 1)
        return 0;
    if (a->v->color == 2)
        return -1;
    return none && *none ? 0 : -1;
}

// The pass that is shown: tokens a second over the last two seconds, then over all of it.
static void measure(looper *l) {
    app *a = l->a;
    rate *r = &l->rate;
    double now = seconds();
    const run *of = NULL;
    // Whoever still reads.
    for (int i = 0; i < a->d.in.n_models; i++)
        if (a->s.shown[i] &&
            (!of || (run_read(of) >= of->T && run_read(a->s.shown[i]) < a->s.shown[i]->T)))
            of = a->s.shown[i];
    a->live.left = -1;
    if (!of)
        return;
    if (r->of != of) {
        *r = (rate){.of = of, .begun = now};
    }
    int64_t read = run_read(of);
    if (r->n == RATE_SAMPLES) {
        memmove(r->at, r->at + 1, (RATE_SAMPLES - 1) * sizeof *r->at);
        memmove(r->read, r->read + 1, (RATE_SAMPLES - 1) * sizeof *r->read);
        r->n--;
    }
    while (r->n > 1 && now - r->at[1] > RATE_SECONDS) {
        memmove(r->at, r->at + 1, (size_t)(r->n - 1) * sizeof *r->at);
        memmove(r->read, r->read + 1, (size_t)(r->n - 1) * sizeof *r->read);
        r->n--;
    }
    if (r->n == 0 || now - r->at[r->n - 1] >= RATE_SECONDS / RATE_SAMPLES) {
        r->at[r->n] = now;
        r->read[r->n++] = read;
    }
    if (read >= of->T) {
        if (r->ended == 0) {
            r->ended = now;
            if (now > r->begun + 0.05)
                a->live.rate = (double)(of->T - r->read[0]) / (now - r->at[0]);
        }
        return;
    }
    double span = now - r->at[0];
    if (span > 0.2)
        a->live.rate = (double)(read - r->read[0]) / span;
    if (now - r->begun > 1 && a->live.rate > 0)
        a->live.left = (double)(of->T - read) / a->live.rate;
}

// Device figures, once a second, where the model runs on a GPU.
static void sample_gpu(looper *l) {
    app *a = l->a;
    double now = seconds();
    if (!l->gpu_tried && a->s.device) {
        const char *at = strstr(a->s.device, "cuda:");
        l->gpu_tried = true;
        l->gpu = at ? gpu_strip_open(atoi(at + 5)) : NULL;
        a->gpu = l->gpu != NULL;
    }
    if (!l->gpu || now - l->sampled < 1)
        return;
    const char *const *f = gpu_strip_sample(l->gpu);
    for (int i = 0; i < GPU_STRIP_FIELDS; i++)
        a->live.strip[i] = f[i];
    l->sampled = now;
    l->dirty = true;
}

static void show(looper *l) {
    app *a = l->a;
    double now = seconds();
    a->live.now = now - l->began;
    if (a->d.log.shown_at < 0)
        a->d.log.shown_at = a->live.now;
    measure(l);
    const surface *s = app_paint(a);
    scene x = app_scene(a);
    int y = -1, col = -1;
    if (!paint_caret(&x, &y, &col))
        y = -1;
    if (a->d.redraw) {
        screen_repaint();
        a->d.redraw = false;
    }
    screen_show(s, y, col);
    l->last_frame = now;
    l->dirty = false;
}

static void key(looper *l, const char *name) {
    app *a = l->a;
    a->live.now = seconds() - l->began;
    app_pump(a);
    scene x = app_scene(a);
    cmd_key(&a->d, &x, name);
    app_ask(a);
    l->dirty = true;
}

static void mouse(looper *l, const screen_event *ev) {
    app *a = l->a;
    double now = seconds();
    app_pump(a);
    scene x = app_scene(a);
    if (ev->wheel) {
        cmd_mouse(&a->d, &x, ev->y, ev->x, ev->wheel, false);
    } else if (ev->press) {
        l->press_y = ev->y;
        l->press_x = ev->x;
        l->pressed = now;
        bool twice = ev->twice || now - l->clicked < 0.3;
        cmd_mouse(&a->d, &x, ev->y, ev->x, 0, twice);
        l->clicked = twice ? 0 : now;
    } else if (ev->release && (ev->x != l->press_x || ev->y != l->press_y)) {
        cmd_drag(&a->d, &x, l->press_y, l->press_x, ev->y, ev->x);
    }
    app_ask(a);
    l->dirty = true;
}

static bool resize(looper *l, err *e) {
    int rows = 24, cols = 80;
    screen_size(&rows, &cols);
    if (rows == l->a->rows && cols == l->a->cols)
        return true;
    screen_resize(rows, cols);
    l->dirty = true;
    return app_resize(l->a, rows, cols, e);
}

static void save_last(app *a) {
    char path[4200];
    err e = {0};
    if (a->d.in.n_models && session_path("", path, sizeof path, &e))
        session_save(&a->d, a->s.shown[0] ? a->s.shown[0]->of : NULL, path, &e);
}

// TERM, HUP, or nobody at the other end. Does not return.
static void end_by(looper *l, int signal) {
    save_last(l->a);
    screen_close();
    tty_signals_restore();
    signals_end(signal);
}

static void suspend(looper *l) {
    screen_suspend();
    tty_signals_stop(); // returns when we are continued
    screen_resume();
    l->a->d.redraw = true;
    l->dirty = true;
}

static bool take_signals(looper *l, err *e) {
    tty_pending p = tty_signals_take();
    if (p.end)
        end_by(l, p.end);
    if (p.stop)
        suspend(l);
    else if (p.resumed) { // stopped by STOP, which nobody can catch
        screen_resume();
        l->a->d.redraw = true;
        l->dirty = true;
    }
    for (int i = 0; i < p.interrupts; i++)
        key(l, "^C");
    return !p.resized && !p.stop && !p.resumed ? true : resize(l, e);
}

static bool turn(looper *l, err *e) {
    app *a = l->a;
    double now = seconds(), wait = -1;
    if (l->dirty)
        wait = l->last_frame + FRAME_SECONDS - now;
    else if (a->d.log.notice && a->live.now - a->d.log.shown_at < 3.2)
        wait = 3.2 - (now - l->began - a->d.log.shown_at); // the answer leaves the key bar
    if (l->gpu && (wait < 0 || wait > 1))
        wait = l->dirty ? wait : 1;
    int ms = wait < 0 ? (l->dirty ? 0 : -1) : (int)(wait * 1000) + 1;
    struct pollfd p[] = {
        {STDIN_FILENO, POLLIN, 0}, {worker_fd(a->w), POLLIN, 0}, {tty_signals_fd(), POLLIN, 0}};
    if (poll(p, 3, ms) < 0 && errno != EINTR)
        return err_set(e, ERR_IO, "poll: %s", err_system(errno));
    if (!take_signals(l, e))
        return false;
    bool keys = false;
    screen_event ev;
    if (p[0].revents)
        while (!a->d.quit && screen_next(&ev)) {
            keys = true;
            if (ev.key[0])
                key(l, ev.key);
            else if (ev.y >= 0)
                mouse(l, &ev);
        }
    if (p[0].revents & (POLLHUP | POLLERR) || (p[0].revents && !keys && !isatty(STDIN_FILENO)))
        end_by(l, SIGHUP);
    if (p[1].revents) {
        app_pump(a);
        app_ask(a);
        l->dirty = true;
    }
    if (a->d.clip.text[0]) {
        char out[4 * sizeof a->d.clip.text];
        screen_write(out, clipboard_sequence(a->d.clip.text, out, sizeof out));
        a->d.clip.text[0] = 0;
    }
    sample_gpu(l);
    if (app_fatal(a)->code != ERR_NONE && !a->s.shown[0] && !a->s.base[0] && !a->d.want.reload &&
        !a->d.in.n_documents_before)
        return err_set(e, app_fatal(a)->code, "%s", app_fatal(a)->text);
    now = seconds();
    if (!l->dirty && a->d.log.notice && now - l->began - a->d.log.shown_at > 3)
        l->dirty = true, a->d.log.notice = false;
    if (a->d.quit)
        return true;
    if (keys || a->d.redraw || (l->dirty && now - l->last_frame >= FRAME_SECONDS))
        show(l);
    return true;
}

bool loop_run(app *a, int *code, err *e) {
    looper l = {.a = a, .began = seconds(), .press_y = -1, .clicked = -1};
    bool ok =
        tty_signals_install(e) && screen_open(colours(a), a->d.look.mouse && !a->v->no_mouse, e);
    if (!ok) {
        tty_signals_restore();
        return false;
    }
    a->live.on = true;
    a->live.left = -1;
    ok = resize(&l, e);
    if (ok) {
        show(&l); // before anybody else wants the cores
        app_ask(a);
    }
    while (ok && !a->d.quit)
        ok = turn(&l, e);
    if (ok)
        save_last(a);
    screen_close();
    gpu_strip_close(l.gpu);
    tty_signals_restore();
    outfile_remove_all();
    *code = a->d.exit_code;
    return ok;
}
