// How many segments a call of the tensor-core delta rule is cut into (kernels/cuda/delta.h): a model of
// waves over multiprocessors.
#include "kernels/cuda/delta.h"

#include <math.h>

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
// Enough for one head: the scan walks the segments one by one.
#define MOST_SEGMENTS 64

static double waves(double blocks, int processors) {
    return ceil(blocks / processors);
}

delta_plan delta_plan_for(const delta_call *s, int processors, int segments) {
    const int tokens = CHUNK / s->n_h;
    const int chunks = (int)((s->T + tokens - 1) / tokens);
    const int most = chunks < 1 ? 1 : chunks < MOST_SEGMENTS ? chunks : MOST_SEGMENTS;
    const double transitions = (double)s->n_rows * s->H,
                 heads = transitions * ((s->V + WIDTH - 1) / WIDTH);
    const bool gated = s->decay != NULL;
    delta_plan best = {};
    double least = 0;
    for (int n = 1; n <= most; n++) {
        if (segments && n != (segments < most ? segments : most))
            continue;
        delta_plan p = {};
        p.per_segment = chunks > 0 ? (chunks + n - 1) / n : 1;
        p.segments = chunks > 0 ? (chunks + p.per_segment - 1) / p.per_segment : 1;
        p.paired = p.segments > 2 && s->V <= WIDTH;
        const double full = p.per_segment * chunk_us(gated), end = p.per_segment * end_us(gated);
        if (p.segments == 1)
            p.second_pass = waves(heads, processors) * full + PASS_US;
        else {
            const double ends = (heads + transitions) * (p.segments - 2);
            p.first_pass = fmax(fmax((heads * full + ends * end) / processors, full),
                                waves(heads + ends, processors) * end) +
                           PASS_US;
            p.scan = p.segments > 2 ? (p.segments - 2) * HOP_US + PASS_US : 0;
            p.second_pass = waves(heads * (p.segments - 1), processors) * full + PASS_US;
        }
        const double us = p.first_pass + p.scan + p.second_pass;
        if (least == 0 || us < least) {
            least = us;
            best = p;
        }
    }
    return best;
}
