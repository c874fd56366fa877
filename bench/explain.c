#include "bench/explain.h"

#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *bench_number(double x, char *buf, size_t size) {
    if (isfinite(x))
        text_real(x, 4, buf, size);
    else
        snprintf(buf, size, "-");
    return buf;
}

char *bench_rate(double x, char *buf, size_t size) {
    static const char *const unit[] = {"", " k", " M", " G", " T", " P"};
    int i = 0;
    for (; x >= 999.5 && i < 5; i++)
        x /= 1000;
    if (isfinite(x))
        snprintf(buf, size, x < 9.995 ? "%.2f%s" : x < 99.95 ? "%.1f%s" : "%.0f%s", x, unit[i]);
    else
        snprintf(buf, size, "-");
    return buf;
}

bool bench_same_shape(const bench_row *a, const bench_row *b) {
    json_t *x = json_copy(a->params), *y = json_copy(b->params);
    json_object_del(x, "impl");
    json_object_del(y, "impl");
    bool same = x && y && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

typedef struct writer {
    char *buf;
    size_t at, size;
} writer;

static void say(writer *w, const char *fmt, ...) {
    va_list ap;
    if (w->at >= w->size)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(w->buf + w->at, w->size - w->at, fmt, ap);
    va_end(ap);
    w->at += n > 0 ? (size_t)n : 0;
}

char *bench_explain(const bench_row *row, char *buf, size_t size) {
    writer w = {buf, 0, size};
    char a[32], b[32], c[32];
    double ms = row_ms(row);
    buf[0] = 0;
    if (row->status != ROW_OK) {
        say(&w, "%s: %s.", row_status_name(row->status), row->why);
        return buf;
    }
    say(&w, "%s ms", bench_number(ms, a, sizeof a));
    if (isfinite(row->floor_ms) && row->floor_ms > 0) {
        double times = ms / row->floor_ms;
        say(&w, ", %s times the floor of %s ms", bench_number(times, a, sizeof a),
            bench_number(row->floor_ms, b, sizeof b));
        bool bytes = row->bytes_ms >= row->flop_ms;
        say(&w, " that %s set (%s%s; %s would need %s ms)", bytes ? "bytes" : "operations",
            bench_rate(bytes ? row->bytes : row->flop, a, sizeof a), bytes ? "B" : "FLOP",
            bytes ? "operations" : "bytes",
            bench_number(bytes ? row->flop_ms : row->bytes_ms, c, sizeof c));
        if (times < 1)
            say(&w, ": the inputs lie in caches");
    } else {
        say(&w, ", %sFLOP and %sB at least (this device's ceilings are not known)",
            bench_rate(row->flop, a, sizeof a), bench_rate(row->bytes, b, sizeof b));
    }
    if (strcmp(row->bound, "chain") == 0)
        say(&w, ". Bound by the chain: %.0f chunks one after the other, %s us each", row->chain,
            bench_number(1e3 * ms / row->chain, a, sizeof a));
    else if (row->chain > 1)
        say(&w, ". %.0f chunks in a row, %s us each", row->chain,
            bench_number(1e3 * ms / row->chain, a, sizeof a));
    if (row->kernel[0])
        say(&w, ". Kernel: %s", row->kernel);
    if (row->kernel_why[0])
        say(&w, " (%s)", row->kernel_why);
    double sum = 0;
    for (int i = 0; i < row->n_phases; i++)
        sum += row->phase[i].ms;
    for (int i = 0; i < row->n_phases; i++)
        say(&w, "%s%s %s ms (%.0f %%)", i ? ", " : ". Phases: ", row->phase[i].name,
            bench_number(row->phase[i].ms, a, sizeof a), 100 * row->phase[i].ms / sum);
    summary s = timings_summary(row->warm.n ? &row->warm : &row->cold);
    say(&w, ". %zu samples, median within %.2g %%, stopped by %s", s.n,
        50 * (s.hi - s.lo) / s.median, row->warm.n ? row->warm.stop : row->cold.stop);
    if (timings_marked(&row->warm))
        say(&w, ", %zu more were throttled or interrupted", timings_marked(&row->warm));
    if (isfinite(row->clock_mhz))
        say(&w, "; %.0f MHz, %.0f W%s%s", row->clock_mhz, row->watt,
            row->throttle[0] ? ", throttled: " : "", row->throttle);
    if (row->gate[0])
        say(&w, ". Gate: %s: %.2g", row->gate, row->error);
    if (isfinite(row->stress))
        say(&w, ", with correlated keys and beta up to 2 %.2g", row->stress);
    say(&w, " (allowed %.0e).", row->tolerance);
    return buf;
}
