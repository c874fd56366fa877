// The weighted average of RWKV-4 (kernels/wkv.h). A thread owns a channel; it walks the block's tokens
// in order with the past scaled by its largest exponent.
#include "kernels/cuda/ops.h"

template <class T>
__global__ void average(view<T> k, view<T> v, const float *bonus, const float *rate, view<float> state, int64_t rows, int64_t cols, view<T> o) {
    GRID_LOOP(c, cols) {
        float n = state.row(0)[c], d = state.row(1)[c], high = state.row(2)[c];
        if (d == 0) // no past yet: zeros stand for nothing at all
            high = -INFINITY;
        for (int64_t t = 0; t < rows; t++) {
            float key = get(k.row(t)[c]), value = get(v.row(t)[c]), now = key + bonus[c];
            float m = fmaxf(high, now), past = expf(high - m), own = expf(now - m);
            put(&o.row(t)[c], (past * n + own * value) / (past * d + own));
            high += rate[c];
            m = fmaxf(high, key);
            past = expf(high - m);
            own = expf(key - m);
            n = past * n + own * value;
            d = past * d + own;
            high = m;
        }
        state.row(0)[c] = n;
        state.row(1)[c] = d;
        state.row(2)[c] = high;
    }
}

void cuda_wkv(backend *be, mat k, mat v, mat u, mat w, mat state, mat o) {
    if (u.esize != 4 || w.esize != 4 || state.esize != 4) {
        err_set(&be->fail, ERR_UNSUPPORTED, "weighted average: rates and state must be float32");
        return;
    }
    ON_TYPE(k, T, average<T><<<blocks_for(k.cols, 64), 64, 0, of(be)->stream>>>(as<T>(k), as<T>(v), (const float *)u.p, (const float *)w.p, as<float>(state), k.rows, k.cols, as<T>(o)));
    launched(be, "weighted average");
}
