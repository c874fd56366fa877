// How many segments a call of the tensor-core delta rule is cut into (kernels/cuda/delta.h): a model of
// waves over multiprocessors.
#include "kernels/cuda/delta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Microseconds, measured on an H200: of a chunk with its outputs and without, of what a block takes besides in the first
// pass, or in the only one, and in the second, where part of it is done when the scan ends; of a hop of the scan and of what a pass costs
// besides.
static double chunk_us(const delta_call *s) {
    return (s->n_h > 1 ? 1.9 : 2.2) + (s->decay ? 0.35 : 0);
}
static double end_us(const delta_call *s) {
    return s->decay ? 1.4 : 1.15;
}
static double first_block_us(const delta_call *s) {
    return s->decay ? 13 : 9;
}
#define SECOND_BLOCK_US 7.0
#define HOP_US          0.8
#define PASS_US         3.0
// Chunks that matter where the rest of a segment has decayed; about that.
#define FEW_CHUNKS 8

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

// What a layout takes when so many eighths of the heads keep their past.
static delta_plan plan_of(const delta_call *s, delta_layout layout, int eighths, int processors,
                          bool outline) {
    delta_plan p = {};
    p.segments = s->n_rows > 0 ? segments_of(group_at(s, 0).chunks, layout) : 1;
    p.uneven = s->n_rows > 0 && group_at(s, 0).rows < s->n_rows;
    for (delta_layout &l : p.layout)
        l = layout;
    p.paired = p.segments > 2 && s->V <= WIDTH;
    const int64_t outputs = (int64_t)s->H * ((s->V + WIDTH - 1) / WIDTH), ends = outputs + s->H;
    const double block = first_block_us(s), end = block + layout.rest * end_us(s),
                 few = block + fmin(layout.rest, FEW_CHUNKS) * end_us(s);
    pass first(processors, outline), second(processors, outline);
    auto output = [&](int chunks) {
        return (p.segments > 1 ? SECOND_BLOCK_US : block) + chunks * chunk_us(s);
    };
    for (int i = 0; i < s->n_rows; i += group_at(s, i).rows) {
        const group g = group_at(s, i);
        const int n = segments_of(g.chunks, layout);
        p.chunks += g.rows * g.chunks;
        p.pieces += g.rows * n;
        p.inner_pieces += n > 2 ? g.rows * (n - 2) : 0;
        for (int j = 0; j < n; j++)
            p.longer[j] += g.rows;
    }
    auto add_ends = [&] {
        const int64_t kept = p.inner_pieces * ends * eighths / LAYOUTS;
        first.add(kept, end);
        first.add(p.inner_pieces * outputs * (LAYOUTS - eighths) / LAYOUTS, few); // no transitions
    };
    second.add(p.inner_pieces * outputs, output(layout.rest));
    for (int i = 0; i < s->n_rows; i += group_at(s, i).rows) {
        const group g = group_at(s, i);
        const int n = segments_of(g.chunks, layout);
        if (n > 1 || p.segments == 1)
            second.add(g.rows * outputs,
                       output(n > 1 ? g.chunks - layout.first - (n - 2) * layout.rest : g.chunks));
        if (p.segments == 1)
            continue;
        const double us = block + (g.chunks < layout.first ? g.chunks : layout.first) * chunk_us(s);
        if (p.early == i && i > 0 && us < end)
            add_ends();
        else if (p.early == i)
            p.early += g.rows;
        first.add(g.rows * outputs, us);
    }
    p.second_pass = second.us();
    if (p.segments == 1)
        return p;
    if (p.early == s->n_rows)
        add_ends();
    p.first_pass = first.us();
    if (p.segments > 2) {
        const double blocks = (double)p.longer[2] * s->H * parts_of(s->V);
        p.scan = ceil(blocks / processors) * (p.segments - 2) * HOP_US + PASS_US;
    }
    return p;
}

static double total(const delta_plan &p) {
    return p.first_pass + p.scan + p.second_pass;
}

// `best` becomes what the layout gives where that takes less than `best` and than `limit` us.
static void consider(const delta_call *s, delta_layout layout, int eighths, int processors,
                     double limit, delta_plan *best) {
    if (best->segments)
        limit = fmin(limit, total(*best));
    if (layout.first < 1 || layout.rest < 1 ||
        total(plan_of(s, layout, eighths, processors, true)) >= limit)
        return;
    const delta_plan p = plan_of(s, layout, eighths, processors, false);
    if (total(p) < limit)
        *best = p;
}

// Rows of one length in n segments. The first one is made beside the ends of the others: it is as long as these take, in whole
// turns of the multiprocessors. No segments: none takes less than `limit` us.
static delta_plan cut_evenly(const delta_call *s, int chunks, int n, int eighths, int processors,
                             double limit) {
    enum { TURNS = 5 };
    const double c = chunk_us(s);
    delta_plan best = {};
    if (n == 1)
        consider(s, {chunks, 1}, eighths, processors, limit, &best);
    for (int turns = 0; n > 1 && turns < TURNS; turns++) {
        const double r = (chunks * c - fmax(turns - 1, 0) * first_block_us(s)) /
                         ((n - 1) * c + turns * end_us(s));
        for (int up = 0; up < 2; up++) {
            const int rest = fmin(floor(r) + up, (chunks - 1) / (n - 1));
            consider(s, {chunks - (n - 1) * rest, rest}, eighths, processors, limit, &best);
        }
    }
    return best;
}

// One number of segments for all layouts, since the grids are the host's: the one that is best on the whole, few rather than
// many: more must gain WORTH.
#define WORTH 0.98
static delta_plan plan_evenly(const delta_call *s, int chunks, int processors, int segments) {
    const int least = s->decay ? 0 : LAYOUTS; // eighths of the heads that keep their past
    const int blocks = (s->V + WIDTH - 1) / WIDTH;
    // No layout takes less: the outputs, evenly shared.
    const double bound =
        (double)s->n_rows * s->H * blocks * (chunks * chunk_us(s) + SECOND_BLOCK_US) / processors +
        2 * PASS_US;
    delta_plan best = {};
    double quickest = INFINITY; // of all layouts together
    for (int n = segments ? segments : 1;
         n <= (segments ? segments : (int)MOST_SEGMENTS) && n <= chunks; n++) {
        delta_plan all = {};
        delta_layout layout[LAYOUTS + 1];
        double us = 0;
        for (int q = LAYOUTS; q >= least && us < quickest; q--) {
            const double limit = quickest - us - (q - least) * bound;
            // In one segment nothing depends on what is kept.
            const delta_plan x =
                n == 1 && q < LAYOUTS ? all : cut_evenly(s, chunks, n, q, processors, limit);
            us = x.segments ? us + total(x) : INFINITY;
            layout[q] = x.layout[q];
            if (q == LAYOUTS)
                all = x;
        }
        if (us >= quickest)
            continue;
        for (int q = 0; q < least; q++)
            layout[q] = layout[least];
        memcpy(all.layout, layout, sizeof layout);
        best = all;
        quickest = us * WORTH;
    }
    return best;
}

// What was asked for last. The layers of a model ask for the same, over and over, and a look at all layouts takes as long as
// their kernels.
struct question {
    int H, V, n_h, chunks, rows, processors, wanted, gated;
};
enum { REMEMBERED = 8 };
static delta_plan remembered(const delta_call *s, int chunks, int processors, int wanted) {
    static thread_local question asked[REMEMBERED];
    static thread_local delta_plan answer[REMEMBERED];
    static thread_local int next;
    const question now = {s->H,      s->V,       s->n_h, chunks,
                          s->n_rows, processors, wanted, s->decay != NULL};
    for (int i = 0; i < REMEMBERED; i++)
        if (answer[i].segments && memcmp(&now, &asked[i], sizeof now) == 0)
            return answer[i];
    const int at = next++ % REMEMBERED;
    asked[at] = now;
    answer[at] = plan_evenly(s, chunks, processors, wanted);
    return answer[at];
}

delta_plan delta_plan_for(const delta_call *s, int processors, int segments) {
    const int longest = s->n_rows > 0 ? group_at(s, 0).chunks : 0,
              chunks = longest > 0 ? longest : 1;
    const int most = segments < MOST_SEGMENTS ? segments : (int)MOST_SEGMENTS,
              wanted = most < chunks ? most : chunks;
    if (s->n_rows == 0 || group_at(s, 0).rows == s->n_rows)
        return remembered(s, chunks, processors, wanted);
    // Rows of different lengths: segments of one length, of all there are, or nearly.
    delta_plan best = {};
    auto alike = [&](int n) { consider(s, {n, n}, LAYOUTS, processors, INFINITY, &best); };
    if (segments)
        alike((chunks + wanted - 1) / wanted);
    for (int n = chunks; !segments && n > 0 && (chunks + n - 1) / n <= MOST_SEGMENTS;
         n -= 1 + n / 32)
        alike(n);
    return best;
}
