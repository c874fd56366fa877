// How many segments a call of the tensor-core delta rule is cut into (kernels/cuda/delta.h): a model of
// waves over multiprocessors.
#include "kernels/cuda/delta.h"

#include <math.h>
#include <stdlib.h>

// Microseconds, measured on an H200: of a chunk with its outputs and without, of a hop of the scan and of what a pass
// costs besides.
static double chunk_us(bool gated) {
    return gated ? 2.9 : 2.3;
}
static double end_us(bool gated) {
    return gated ? 1.8 : 1.5;
}
#define HOP_US  1.6
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
        boundaries += s->every > 0 ? (int)((T + s->every - 1) / s->every) : 0;
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

// The time of a pass whose tasks come longest first, at least: that of the longest, what each processor gets of
// the whole, and for every k what one has that gets k + 1 of the first k n + 1 tasks.
struct pass {
    int processors;
    double n, sum, most;
    void add(double tasks, double us) {
        if (tasks == 0)
            return;
        n += tasks;
        sum += tasks * us;
        most = fmax(most, ceil(n / processors) * us);
    }
    double us() const {
        return fmax(most, sum / processors) + PASS_US;
    }
};

static int pieces_of(int chunks, int per_segment) {
    return chunks > 0 ? (chunks + per_segment - 1) / per_segment : 1;
}

// longest: chunks.
static delta_plan plan_of(const delta_call *s, int longest, int per_segment, int processors) {
    delta_plan p = {};
    p.per_segment = per_segment;
    p.segments = pieces_of(longest, per_segment);
    p.paired = p.segments > 2 && s->V <= WIDTH;
    const bool gated = s->decay != NULL;
    const double outputs = (double)s->H * ((s->V + WIDTH - 1) / WIDTH), ends = outputs + s->H,
                 full = per_segment * chunk_us(gated), end = per_segment * end_us(gated);
    pass first = {processors}, second = {processors};
    for (int i = 0; i < s->n_rows; i += group_at(s, i).rows) {
        const group g = group_at(s, i);
        const int n = pieces_of(g.chunks, per_segment);
        p.chunks += g.rows * g.chunks;
        p.pieces += g.rows * n;
        p.inner_pieces += n > 2 ? g.rows * (n - 2) : 0;
        for (int j = 0; j < n; j++)
            p.longer[j] += g.rows;
        if (p.segments == 1)
            second.add(g.rows * outputs, g.chunks * chunk_us(gated));
        else if (n == 2)
            second.add(g.rows * outputs, (g.chunks - per_segment) * chunk_us(gated));
        else if (n > 2) // the last counts as whole
            second.add(g.rows * outputs * (n - 1), full);
    }
    p.second_pass = second.us();
    if (p.segments == 1)
        return p;
    for (int i = 0; i < s->n_rows; i += group_at(s, i).rows) {
        const group g = group_at(s, i);
        const double us = fmin(g.chunks, per_segment) * chunk_us(gated);
        if (p.early == i && us < end)
            first.add(p.inner_pieces * ends, end);
        else if (p.early == i)
            p.early += g.rows;
        first.add(g.rows * outputs, us);
    }
    if (p.early == s->n_rows)
        first.add(p.inner_pieces * ends, end);
    p.first_pass = first.us();
    p.scan = p.segments > 2 ? (p.segments - 2) * HOP_US + PASS_US : 0;
    return p;
}

delta_plan delta_plan_for(const delta_call *s, int processors, int segments) {
    const int chunks = s->n_rows > 0 ? group_at(s, 0).chunks : 0;
    const int most = chunks < 1 ? 1 : chunks < MOST_SEGMENTS ? chunks : MOST_SEGMENTS;
    delta_plan best = {};
    double least = 0;
    for (int n = 1; n <= most; n++) {
        if (segments && n != (segments < most ? segments : most))
            continue;
        const int per_segment = chunks > 0 ? (chunks + n - 1) / n : 1;
        const delta_plan p = plan_of(s, chunks, per_segment, processors);
        const double us = p.first_pass + p.scan + p.second_pass;
        if (least == 0 || us < least) {
            least = us;
            best = p;
        }
    }
    return best;
}
