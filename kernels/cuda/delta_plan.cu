// How many segments a call of the tensor-core delta rule is cut into (kernels/cuda/delta.h): a model of
// waves over multiprocessors.
#include "kernels/cuda/delta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Microseconds, measured on an H200: of a chunk with its outputs and without, of a hop of the scan and of what a pass costs
// besides.
static double chunk_us(bool gated) {
    return gated ? 2.7 : 2.2;
}
static double end_us(bool gated) {
    return gated ? 1.8 : 1.5;
}
// heads: of all rows with a scan.
static double hop_us(double heads, int V, int columns, int processors) {
    return columns == 8 ? 1.3 : 2.9 * ceil(heads * ((V + 15) / 16) / processors);
}
#define PASS_US 4.0

int delta_tokens(const delta_call *s) {
    int n = CHUNK / s->n_h;
    while (s->every > 0 && s->every % n != 0)
        n--;
    return n;
}

static int longest_first(const void *x, const void *y) {
    const delta_row *a = (const delta_row *)x, *b = (const delta_row *)y;
    return a->chunks != b->chunks ? b->chunks - a->chunks : a->state - b->state;
}

int delta_rows_of(const delta_call *s, const int64_t *starts, int64_t n, delta_row *rows) {
    const int tokens = delta_tokens(s);
    int count = 0, boundaries = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t T = starts[i + 1] - starts[i];
        if (T == 0)
            continue;
        delta_row r = {};
        r.token0 = (int)starts[i];
        r.tokens = (int)T;
        r.state = (int)i;
        r.boundary0 = boundaries;
        r.chunks = (int)((T + tokens - 1) / tokens);
        boundaries += (int)row_boundaries(T, s->every);
        rows[count++] = r;
    }
    qsort(rows, (size_t)count, sizeof *rows, longest_first);
    for (int i = count - 1; i >= 0; i--) {
        const bool alike = i + 1 < count && rows[i + 1].chunks == rows[i].chunks;
        rows[i].same = alike ? rows[i + 1].same + 1 : 1;
    }
    return count;
}

// Rows from number i on that have as many chunks as it.
struct group {
    int chunks, rows;
};
static group group_at(const delta_call *s, int i) {
    if (s->rows)
        return {s->rows[i].chunks, s->rows[i].same};
    const int tokens = delta_tokens(s);
    return {(int)((s->T + tokens - 1) / tokens), s->n_rows};
}

// The time of a pass whose tasks, in their order, go to the multiprocessor that is free first. In outline: what each
// gets of all of them, or the longest, which it takes at least.
struct pass {
    enum { MOST = 256 };
    const bool outline;
    const int processors;
    double sum = 0, longest = 0, end = 0;
    struct {
        double since;
        int processors;
    } free[MOST]; // the earliest first
    int n = 1;
    pass(int of, bool in_outline) : outline(in_outline), processors(of < MOST ? of : (int)MOST) {
        free[0] = {0, processors};
    }
    void add(int64_t tasks, double us) {
        sum += (double)tasks * us;
        longest = tasks ? fmax(longest, us) : longest;
        while (tasks > 0 && !outline) {
            const double done = free[0].since + us;
            const int some = (int)(tasks < free[0].processors ? tasks : free[0].processors);
            tasks -= some;
            free[0].processors -= some;
            if (free[0].processors == 0)
                memmove(free, free + 1, (size_t)--n * sizeof *free);
            int at = n++;
            for (; at > 0 && free[at - 1].since > done; at--)
                free[at] = free[at - 1];
            free[at] = {done, some};
            end = fmax(end, done);
        }
    }
    double us() const {
        return (outline ? fmax(longest, sum / processors) : end) + PASS_US;
    }
};

static int pieces_of(int chunks, int per_segment) {
    return chunks > 0 ? (chunks + per_segment - 1) / per_segment : 1;
}

// longest: chunks of the longest row.
static delta_plan plan_of(const delta_call *s, int longest, int per_segment, int processors,
                          bool outline) {
    delta_plan p = {};
    p.per_segment = per_segment;
    p.segments = pieces_of(longest, per_segment);
    p.paired = p.segments > 2 && s->V <= WIDTH;
    const bool gated = s->decay != NULL;
    const int64_t outputs = (int64_t)s->H * ((s->V + WIDTH - 1) / WIDTH), ends = outputs + s->H;
    const double end = per_segment * end_us(gated);
    pass first(processors, outline), second(processors, outline);
    for (int i = 0; i < s->n_rows; i += group_at(s, i).rows) {
        const group g = group_at(s, i);
        const int n = pieces_of(g.chunks, per_segment);
        p.chunks += g.rows * g.chunks;
        p.pieces += g.rows * n;
        p.inner_pieces += n > 2 ? g.rows * (n - 2) : 0;
        for (int j = 0; j < n; j++)
            p.longer[j] += g.rows;
    }
    second.add(p.inner_pieces * outputs, per_segment * chunk_us(gated));
    for (int i = 0; i < s->n_rows; i += group_at(s, i).rows) {
        const group g = group_at(s, i);
        const int n = pieces_of(g.chunks, per_segment);
        if (n > 1 || p.segments == 1)
            second.add(g.rows * outputs, (g.chunks - (n - 1) * per_segment) * chunk_us(gated));
        if (p.segments == 1)
            continue;
        const double us = fmin(g.chunks, per_segment) * chunk_us(gated);
        if (p.early == i && us < end)
            first.add(p.inner_pieces * ends, end);
        else if (p.early == i)
            p.early += g.rows;
        first.add(g.rows * outputs, us);
    }
    p.second_pass = second.us();
    if (p.segments == 1)
        return p;
    if (p.early == s->n_rows)
        first.add(p.inner_pieces * ends, end);
    p.first_pass = first.us();
    // Fewer columns a block where few heads would leave half of the multiprocessors idle.
    const int64_t heads = (int64_t)p.longer[2] * s->H;
    p.scan_columns = heads * ((s->V + 7) / 8) <= processors ? 8 : 16;
    if (p.segments > 2)
        p.scan =
            (p.segments - 2) * hop_us((double)heads, s->V, p.scan_columns, processors) + PASS_US;
    return p;
}

static double total(const delta_plan &p) {
    return p.first_pass + p.scan + p.second_pass;
}

delta_plan delta_plan_for(const delta_call *s, int processors, int segments) {
    const int longest = s->n_rows > 0 ? group_at(s, 0).chunks : 0,
              chunks = longest > 0 ? longest : 1;
    delta_plan best = {};
    auto consider = [&](int per_segment) {
        if (best.segments &&
            total(plan_of(s, longest, per_segment, processors, true)) >= total(best))
            return;
        const delta_plan p = plan_of(s, longest, per_segment, processors, false);
        if (!best.segments || total(p) < total(best))
            best = p;
    };
    if (segments)
        consider(pieces_of(chunks, segments < MOST_SEGMENTS ? segments : (int)MOST_SEGMENTS));
    else {
        // Rows of one length: what cuts it evenly. Others: as many as there are, or nearly.
        for (int n = 1; n <= MOST_SEGMENTS && n <= chunks; n++)
            consider(pieces_of(chunks, n));
        for (int n = chunks; s->rows && n > 0 && pieces_of(chunks, n) <= MOST_SEGMENTS;
             n -= 1 + n / 32)
            consider(n);
    }
    return best;
}
