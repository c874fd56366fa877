// How many segments a chunked linear recurrence is cut into, and whether it pays at all
// (kernels/cuda/linear.h): a model of blocks on multiprocessors.
#include "kernels/cuda/linear.h"

#include <math.h>

enum { STAGE = 64, MOST_SEGMENTS = 256 }; // tokens of which both passes take whole numbers

// Microseconds of a pass beside its stages (its launch, states from and to memory), of a step of the scan, and
// bytes that the scan moves in one.
#define ENDS_US       4.0
#define OUTPUTS_US    10.0
#define HOP_US        0.1
#define SCAN_BYTES_US 3e6

// A kernel's tile (linear_tile.h), as far as time depends on it, and microseconds of 64 tokens for a block of
// 128 columns: alone on its multiprocessor, and beside as many as fit. Measured on an H200
// (bench/results/h200-linear.md); those of float32 keys that are not 128 wide are estimates.
struct tile_cost {
    int warps, slice, resident;
    double outputs[2], ends[2];
};

static tile_cost cost_of(const linear_call *c) {
    const bool half = c->q.bytes == 2;
    tile_cost t = half && c->K <= 64    ? tile_cost{4, 32, 3, {4.8, 6.0}, {2.1, 3.0}}
                  : half && c->K <= 128 ? tile_cost{4, 32, 2, {5.4, 7.4}, {2.6, 3.3}}
                  : half                ? tile_cost{8, 16, 1, {7.1, 7.1}, {3.6, 3.6}}
                  : c->K <= 64          ? tile_cost{8, 16, 1, {13, 13}, {6, 6}}
                  : c->K <= 128         ? tile_cost{8, 16, 1, {24, 24}, {11.5, 11.5}}
                                        : tile_cost{8, 16, 1, {48, 48}, {23, 23}};
    if (half && c->forget == FORGET_BY_CHANNEL)
        for (int i = 0; i < 2; i++) {
            t.outputs[i] *= 1.4;
            t.ends[i] *= 2.5;
        }
    return t;
}

static double blocks_of(const linear_call *c) {
    const tile_cost t = cost_of(c);
    const bool channel = c->forget == FORGET_BY_CHANNEL;
    const int heads = channel ? 1 : c->H / c->Hk, slices = (c->V + t.slice - 1) / t.slice;
    return (double)(channel ? c->H : c->Hk) * ((heads * slices + t.warps - 1) / t.warps);
}

// Of `blocks` equal blocks of so many stages, us as above.
static double stages_us(const double *us, double blocks, double stages, int processors,
                        int resident) {
    const double places = (double)processors * resident, full = floor(blocks / places);
    const double rest = blocks - full * places;
    return stages * (full * us[1] + (rest <= 0 ? 0 : rest <= processors ? us[0] : us[1]));
}

// Blocks that forget soon end soon and make room: waves are as good as full.
static double ends_us(const double *us, double blocks, double stages, int processors,
                      int resident) {
    const double waves = blocks / ((double)processors * resident);
    return stages * (blocks <= processors ? us[0] : fmax(1, waves) * us[1]);
}

linear_plan linear_plan_for(const linear_call *c, int processors, int segments) {
    const int64_t stages = (c->T + STAGE - 1) / STAGE;
    const int64_t most = stages < 1 ? 1 : stages < MOST_SEGMENTS ? stages : MOST_SEGMENTS;
    const tile_cost t = cost_of(c);
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
        p.outputs = OUTPUTS_US +
                    stages_us(t.outputs, blocks * p.segments, (double)per, processors, t.resident);
        if (p.segments > 1) {
            p.ends = ENDS_US + ends_us(t.ends, blocks * (p.segments - 1), (double)per, processors,
                                       t.resident);
            p.scan = ENDS_US + p.segments * (HOP_US + 8 * state / SCAN_BYTES_US);
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
    // Blocks of 16 columns, four on a multiprocessor at full speed (recurrence.cu); measured likewise.
    const double blocks = (double)c->H * ((c->V + 15) / 16), waves = blocks / (processors * 4.0);
    const double token = (0.6 + 0.004 * c->K) * (c->forget == FORGET_BY_CHANNEL ? 1.75 : 1);
    return 8 + (double)c->T * fmax(1, waves) * token;
}
