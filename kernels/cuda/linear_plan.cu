// How many segments a chunked linear recurrence is cut into, and whether it pays at all
// (kernels/cuda/linear.h): a model of blocks on multiprocessors.
#include "kernels/cuda/linear.h"

#include <math.h>

enum { STAGE = 32, MOST_SEGMENTS = 256 };

// Microseconds of a pass beside its stages, of a step of the scan, and bytes that the scan moves in one.
#define PASS_US       5.0
#define HOP_US        0.4
#define SCAN_BYTES_US 3e6

// What the kernels' tiles are (linear_tile.h), as far as time depends on it.
struct tile_facts {
    int columns, resident, warps, slice;
};

static tile_facts facts_of(const linear_call *c) {
    const bool half = c->q.bytes == 2, narrow = c->K <= 128;
    return half && narrow ? tile_facts{128, 2, 4, 32} : tile_facts{128, 1, 8, 16};
}

static double blocks_of(const linear_call *c) {
    const tile_facts t = facts_of(c);
    const bool channel = c->forget == FORGET_BY_CHANNEL;
    const int heads = channel ? 1 : c->H / c->Hk, slices = (c->V + t.slice - 1) / t.slice;
    return (double)(channel ? c->H : c->Hk) * ((heads * slices + t.warps - 1) / t.warps);
}

// Microseconds of a stage of 32 tokens, of a block that has the multiprocessor for itself and of one of two
// that share it; measured on an H200 (bench/results/h200-linear.md).
static double stage_us(const linear_call *c, bool outputs, bool shared) {
    const double width = c->K <= 64 ? 0.6 : c->K <= 128 ? 1 : 2;
    const double type = c->q.bytes == 2 ? 1 : c->fine ? 6 : 3;
    const double gates = c->forget == FORGET_BY_CHANNEL ? 0.6 : 0;
    return (outputs ? 1.1 : 0.5) * (1 + gates) * width * type * (shared ? 1.5 : 1);
}

// Of `blocks` equal blocks of so many stages.
static double pass_us(const linear_call *c, bool outputs, double blocks, double stages,
                      int processors) {
    const int resident = facts_of(c).resident;
    const double full = floor(blocks / (processors * resident));
    const double rest = blocks - full * processors * resident;
    return PASS_US + stages * (full * stage_us(c, outputs, resident > 1) +
                               (rest > 0 ? stage_us(c, outputs, rest > processors) : 0));
}

linear_plan linear_plan_for(const linear_call *c, int processors, int segments) {
    const int64_t stages = (c->T + STAGE - 1) / STAGE;
    const int64_t most = stages < 1 ? 1 : stages < MOST_SEGMENTS ? stages : MOST_SEGMENTS;
    const double blocks = blocks_of(c), state = (double)c->H * c->K * c->V;
    linear_plan best = {};
    double least = 0;
    for (int64_t n = 1; n <= most; n++) {
        if (segments && n != (segments < most ? segments : most))
            continue;
        const int64_t per = stages > 0 ? (stages + n - 1) / n : 1;
        linear_plan p = {};
        p.segments = stages > 0 ? (int)((stages + per - 1) / per) : 1;
        p.tokens = per * STAGE;
        p.outputs = pass_us(c, true, blocks * p.segments, (double)per, processors);
        if (p.segments > 1) {
            p.ends = pass_us(c, false, blocks * (p.segments - 1), (double)per, processors);
            p.scan = PASS_US + p.segments * (HOP_US + 8 * state / SCAN_BYTES_US);
        }
        const double us = linear_us(&p);
        if (least == 0 || us < least) {
            least = us;
            best = p;
        }
    }
    return best;
}

double linear_us(const linear_plan *p) {
    return p->ends + p->scan + p->outputs;
}

double linear_steps_us(const linear_call *c, int processors) {
    // Blocks of 16 columns (recurrence.cu); as many tokens as rows of the state a lane keeps.
    const double blocks = (double)c->H * ((c->V + 15) / 16);
    const double waves = fmax(1, blocks / (processors * 4.0));
    return PASS_US + (double)c->T * waves * (0.1 + 0.0025 * c->K);
}
