#include "bench/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Share of a run's disturbance that its level may be off by.
#define DISTURBED 0.15
enum { MOST_ROUNDS = 512, STRETCHES = 8, LEAST_STRETCH = 5 };

const char *verdict_name(verdict_kind v) {
    static const char *const names[] = {"FASTER", "SLOWER", "SAME",  "UNCLEAR",
                                        "NEW",    "GONE",   "WRONG", "INCOMPARABLE"};
    return names[v];
}

verdict_rules verdict_default(void) {
    return (verdict_rules){.threshold = 0.05, .alpha = 0.01, .noise = 0.01, .rows = 1};
}

// Round of sample i: the one that was noted, or a stretch of a series of one round.
static int round_of(const timings *s, size_t i, int stretches) {
    return stretches > 1 ? (int)(i * (size_t)stretches / s->n) : s->round[i];
}

size_t verdict_levels(const timings *s, bool cycles, double *out, size_t most) {
    bool one = true;
    for (size_t i = 0; i < s->n; i++) {
        double x = cycles ? s->cycles[i] : s->ms[i];
        if (!isfinite(x) || x <= 0)
            return 0;
        one = one && s->round[i] == s->round[0];
    }
    int stretches = one ? (int)(s->n / LEAST_STRETCH) : 0;
    stretches = stretches > STRETCHES ? STRETCHES : stretches;
    bool all_marked = timings_marked(s) == s->n;
    double *v = malloc((s->n + 1) * sizeof *v);
    size_t rounds = 0;
    for (size_t i = 0; v && i < s->n && rounds < most;) {
        size_t n = 0, next = s->n;
        int r = round_of(s, i, stretches);
        for (size_t k = i; k < s->n; k++) {
            if (round_of(s, k, stretches) != r) {
                next = k;
                break;
            }
            if (!s->marked[k] || all_marked)
                v[n++] = log(cycles ? s->cycles[k] : s->ms[k]);
        }
        if (n)
            out[rounds++] = stats_quantile(v, n, VERDICT_QUANTILE);
        i = next;
    }
    free(v);
    return rounds;
}

// A reason around a text of a file, cut behind a whole character: results are UTF-8.
static void worded(char *buf, size_t size, const char *before, const char *text) {
    int n = snprintf(buf, size, "%s", before);
    size_t at = n < (int)size ? (size_t)n : size - 1, len = strlen(text);
    len = len < size - 1 - at ? len : size - 1 - at;
    while (text[len] && (text[len] & 0xc0) == 0x80)
        len--;
    memcpy(buf + at, text, len);
    buf[at + len] = 0;
}

static change because(change c, verdict_kind v, const char *reason) {
    c.verdict = v;
    snprintf(c.reason, sizeof c.reason, "%s", reason);
    return c;
}

// Why a series gives no number; NULL when it does.
static const char *no_number(const timings *s) {
    if (s->n == 0)
        return "has no samples";
    for (size_t i = 0; i < s->n; i++) {
        if (!isfinite(s->ms[i]))
            return "has a sample that is no number";
        if (s->ms[i] <= 0)
            return s->ms[i] < 0 ? "has a negative time" : "has a time of zero";
    }
    return NULL;
}

typedef struct estimate {
    double change, half; // of the log; half width of its interval
    bool known;
} estimate;

// How far the middle of a series lies above its lower end, in logs: what disturbances added. The level
// of a disturbed run is not known as well as its own rounds say.
static double disturbance(const timings *s) {
    double *v = malloc((s->n + 1) * sizeof *v);
    size_t n = 0, marked = timings_marked(s);
    for (size_t i = 0; v && i < s->n; i++)
        if (!s->marked[i] || marked == s->n)
            v[n++] = log(s->ms[i]);
    double d = v && n ? stats_quantile(v, n, 0.5) - stats_quantile(v, n, 0.05) : 0;
    free(v);
    return d;
}

static estimate compare(const timings *a, const timings *b, bool cycles, double noise, double p) {
    double x[MOST_ROUNDS], y[MOST_ROUNDS];
    size_t n = verdict_levels(a, cycles, x, MOST_ROUNDS),
           m = verdict_levels(b, cycles, y, MOST_ROUNDS);
    estimate r = {NAN, NAN, n > 0 && m > 0};
    if (!r.known)
        return r;
    difference d = stats_difference(x, n, y, m, VERDICT_QUANTILE, 0x6465616c);
    double own = isfinite(d.error) ? d.error : 0;
    double part_a = DISTURBED * disturbance(a), part_b = DISTURBED * disturbance(b);
    // Two runs, each with its own share of what runs of one binary differ by.
    double error = sqrt(own * own + 2 * noise * noise + part_a * part_a + part_b * part_b);
    // The floor is known better than the few rounds: it stiffens the interval's tail, too.
    double dof = own > 0 ? d.dof * pow(error / own, 4) : 100;
    r.change = d.estimate;
    r.half = stats_t(p, dof > 200 ? 200 : dof) * error;
    return r;
}

static double larger_noise(const bench_row *a, const bench_row *b, double otherwise) {
    double n = isfinite(a->noise) ? a->noise : NAN;
    if (isfinite(b->noise) && !(n > b->noise))
        n = b->noise;
    return isfinite(n) ? n : otherwise;
}

static bool beyond(estimate x, double sign, double threshold) {
    return sign * x.change > log1p(threshold) && sign * x.change - x.half > 0;
}

change verdict_rows(const bench_row *old, const bench_row *new, const verdict_rules *rules) {
    change c = {.ratio = NAN, .lo = NAN, .hi = NAN, .cycles_ratio = NAN, .noise = NAN};
    c.old_ms = old ? row_ms(old) : (double)NAN;
    c.new_ms = new ? row_ms(new) : (double)NAN;
    char text[200];
    if (new && (new->status == ROW_WRONG || new->status == ROW_FAILED)) {
        worded(text, sizeof text,
               new->status == ROW_WRONG ? "the gate did not pass: " : "failed: ", new->why);
        return because(c, VERDICT_WRONG, text);
    }
    if (!old)
        return because(c, VERDICT_NEW, "not in the baseline");
    if (!new)
        return because(c, VERDICT_GONE, "not in the new result");
    if (new->status == ROW_SKIPPED) {
        worded(text, sizeof text, "not measured: ", new->why);
        return because(c, VERDICT_GONE, text);
    }
    if (old->status != ROW_OK) {
        snprintf(text, sizeof text, "the baseline has no time: %s", row_status_name(old->status));
        return because(c, VERDICT_NEW, text);
    }
    // Like with like: emptied caches alone would look slower by what the caches are worth.
    bool cold = !(old->warm.n && new->warm.n) && old->cold.n && new->cold.n;
    const timings *a = cold ? &old->cold : &old->warm, *b = cold ? &new->cold : &new->warm;
    if (cold) {
        c.old_ms = timings_summary(a).median;
        c.new_ms = timings_summary(b).median;
    }
    const char *bad_old = no_number(a), *bad_new = no_number(b);
    if (bad_old || bad_new) {
        snprintf(text, sizeof text, "%s %s", bad_old ? "the baseline" : "the new result",
                 bad_old ? bad_old : bad_new);
        return because(c, VERDICT_INCOMPARABLE, text);
    }
    double p = rules->alpha / (double)(rules->rows ? rules->rows : 1);
    c.noise = larger_noise(old, new, rules->noise);
    estimate t = compare(a, b, false, c.noise, p), k = compare(a, b, true, c.noise, p);
    c.ratio = exp(t.change);
    c.lo = exp(t.change - t.half);
    c.hi = exp(t.change + t.half);
    if (k.known)
        c.cycles_ratio = exp(k.change);
    if (a->n < 2 || b->n < 2)
        return because(c, VERDICT_UNCLEAR, "a single sample decides nothing");
    for (int i = 0; i < 2; i++) {
        double sign = i ? -1 : 1;
        verdict_kind word = i ? VERDICT_FASTER : VERDICT_SLOWER;
        // Cycles decide where they are known: the clock's part is taken out of them.
        estimate main = k.known ? k : t;
        if (beyond(main, sign, rules->threshold)) {
            // ... but time that does not follow at all is another machine's, or another clock's.
            if (sign * t.change < 0.25 * log1p(rules->threshold))
                return because(c, VERDICT_UNCLEAR, "cycles changed and time did not");
            snprintf(text, sizeof text, "beyond %.3g%% and the interval", 100 * rules->threshold);
            return because(c, word, text);
        }
        if (k.known && beyond(t, sign, rules->threshold))
            return because(c, VERDICT_UNCLEAR,
                           "time changed and cycles did not: the machine, not the program");
    }
    estimate main = k.known ? k : t;
    if (fabs(main.change) + main.half < log1p(rules->threshold) * 2 ||
        fabs(main.change) < log1p(rules->threshold))
        return because(c, VERDICT_SAME, "");
    return because(c, VERDICT_UNCLEAR, "above the threshold, but within what runs differ by");
}
