#include "bench/measure.h"

#include "bench/yardstick.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A CPU sample lasts about this long: short enough to fall between two interruptions, long enough for
// the clock.
#define CPU_SAMPLE 1e-3
enum { QUEUE = BACKEND_MARKS / 2 };

static bool on_gpu(const meter *m) {
    return strcmp(m->be->device, "cpu") != 0;
}

static void call(meter *m) {
    m->op->run(m->work, 1);
    if (m->extra > 0)
        m->op->run(m->work, m->extra);
}

// Seconds of n calls in a row, by the device's clock.
static double timed(meter *m, int n) {
    const backend_ops *op = m->be->op;
    op->mark(m->be, 0);
    for (int i = 0; i < n; i++)
        call(m);
    op->mark(m->be, 1);
    return op->elapsed(m->be, 0, 1);
}

bool measure_warm_up(meter *m, double seconds, err *e) {
    double start = clock_now(), best = INFINITY;
    m->clock_mhz = m->watt = m->celsius = NAN;
    m->max_clock_mhz = nvml_about(m->card).max_sm_mhz;
    m->throttle = 0;
    m->first_ms = 1e3 * timed(m, 1);
    // Until five calls in a row brought nothing faster by a hundredth.
    for (int same = 0, n = 0; same < 5 && (n < 2 || clock_now() - start < seconds); n++) {
        double t = timed(m, 1);
        same = t < 0.99 * best ? 0 : same + 1;
        best = t < best ? t : best;
        if (!backend_check(m->be, e))
            return false;
    }
    m->call_ms = 1e3 * best;
    double calls = on_gpu(m) ? 1 : ceil(CPU_SAMPLE / (best > 1e-9 ? best : 1e-9));
    m->calls = calls < 1 ? 1 : calls > 1e6 ? 1000000 : (int)calls;
    return backend_check(m->be, e);
}

// One sample on the CPU. false: the backend failed.
static bool sample_cpu(meter *m, bool cold, int round, timings *s, err *e) {
    int calls = cold ? 1 : m->calls;
    int threads = m->be->threads > 0 ? m->be->threads : 1;
    // On a shared core a short sleep begins a new slice of time, and a call that is not timed brings the
    // caches back that somebody else used meanwhile.
    if (m->shared)
        usleep(50);
    if (cold)
        m->be->op->evict(m->be);
    else
        call(m);
    double yard = yardstick();
    double cpu = threads == 1 ? clock_thread() : clock_process();
    double t = timed(m, calls);
    cpu = (threads == 1 ? clock_thread() : clock_process()) - cpu;
    double after = yardstick(); // the faster of both: an interruption only ever adds
    yard = after < yard ? after : yard;
    // Interrupted: somebody else had the core for a tenth of the time or more. What one thread would
    // have taken alone is its processor time; of several nobody knows.
    bool marked = threads == 1 ? cpu < 0.9 * t : cpu < 0.6 * t * threads;
    m->shared = marked || (m->shared && cpu < 0.97 * t * threads);
    if (marked && threads == 1)
        t = cpu;
    return backend_check(m->be, e) &&
           timings_add(s, 1e3 * t / calls, cpu / (yard * calls), round, marked, e);
}

// A batch of up to QUEUE calls in the queue at once, each between two events, so that the device
// never waits for the host between them; the card is read while it works.
static bool sample_gpu(meter *m, bool cold, int n, int round, timings *s, err *e) {
    const backend_ops *op = m->be->op;
    for (int i = 0; i < n; i++) {
        if (cold)
            op->evict(m->be);
        op->mark(m->be, 2 * i);
        call(m);
        op->mark(m->be, 2 * i + 1);
    }
    nvml_reading card = nvml_read(m->card);
    op->wait(m->be);
    const unsigned bad = NVML_HW_SLOWDOWN | NVML_SW_THERMAL | NVML_HW_THERMAL | NVML_POWER_BRAKE;
    bool marked = card.throttle & bad || card.sm_mhz < 0.75 * m->max_clock_mhz;
    m->throttle |= card.throttle;
    m->clock_mhz = card.sm_mhz;
    m->watt = card.watt;
    m->celsius = card.celsius;
    for (int i = 0; i < n; i++) {
        double t = op->elapsed(m->be, 2 * i, 2 * i + 1);
        if (!backend_check(m->be, e) ||
            !timings_add(s, 1e3 * t, 1e6 * t * card.sm_mhz, round, marked, e))
            return false;
    }
    return true;
}

// Seconds that count against a budget: of one busy thread on a shared core those it really had, up to a
// limit.
static double spent(const meter *m, double since, double cpu_since) {
    double wall = clock_now() - since, cpu = clock_process() - cpu_since;
    return on_gpu(m) || cpu > wall ? wall : fmax(cpu, wall / 1.5);
}

bool measure_block(meter *m, bool cold, const measure_limits *l, int round, timings *s, err *e) {
    double start = clock_now(), cpu = clock_process();
    entropy h = {0};
    size_t first = s->n;
    bool gpu = on_gpu(m);
    int most = l->most, kept = 0;
    snprintf(s->stop, sizeof s->stop, "count");
    for (int n = 0; n < most;) {
        size_t before = s->n;
        int batch = gpu ? most - n < QUEUE ? most - n : QUEUE : 1;
        // A long call is not queued sixteen times when the budget ends after three.
        if (gpu && batch > 1 + (int)(l->seconds / (4e-3 * m->call_ms)))
            batch = 1 + (int)(l->seconds / (4e-3 * m->call_ms));
        if (!(gpu ? sample_gpu(m, cold, batch, round, s, e) : sample_cpu(m, cold, round, s, e)))
            return false;
        n += batch;
        bool throttled = s->marked[s->n - 1];
        for (size_t i = before; i < s->n; i++) {
            entropy_add(&h, s->ms[i]);
            kept += !s->marked[i];
        }
        if (spent(m, start, cpu) > l->seconds && n >= l->least) {
            snprintf(s->stop, sizeof s->stop, "budget");
            break;
        }
        if (throttled) { // room to cool; the sample is taken again
            if (gpu)
                usleep(50000);
            most += most < 4 * l->most ? batch : 0;
            continue;
        }
        if (kept < l->least || n % 4)
            continue;
        summary x = stats_summary(s->ms + first, s->n - first);
        if (x.hi - x.lo < 2 * l->precision * x.median) {
            snprintf(s->stop, sizeof s->stop, "interval");
            break;
        }
        if (entropy_settled(&h)) {
            snprintf(s->stop, sizeof s->stop, "entropy");
            break;
        }
    }
    return true;
}

// Phases -----------------------------------------------------------------------------------------

typedef struct phase_log {
    const char *name[ROW_PHASES];
    int n;
} phase_log;

static void on_phase(backend *be, const char *name) {
    phase_log *log = be->phase_ctx;
    if (log->n < ROW_PHASES) {
        log->name[log->n++] = name;
        be->op->mark(be, log->n);
    }
}

bool measure_phases(meter *m, bench_row *row, err *e) {
    enum { TURNS = 9 };
    double t[ROW_PHASES][TURNS];
    phase_log log = {0};
    row->n_phases = 0;
    for (int i = 0; i < TURNS; i++) {
        log.n = 0;
        m->be->phase_ctx = &log;
        m->be->on_phase = on_phase;
        m->be->op->mark(m->be, 0);
        m->op->run(m->work, 1);
        m->be->on_phase = NULL;
        m->be->op->wait(m->be);
        for (int k = 0; k < log.n; k++)
            t[k][i] = 1e3 * m->be->op->elapsed(m->be, k, k + 1);
        if (!backend_check(m->be, e))
            return false;
    }
    for (int k = 0; k < log.n && log.n > 1; k++) {
        snprintf(row->phase[k].name, sizeof row->phase[k].name, "%s", log.name[k]);
        row->phase[k].ms = stats_quantile(t[k], TURNS, 0.5);
        row->n_phases = log.n;
    }
    return true;
}
