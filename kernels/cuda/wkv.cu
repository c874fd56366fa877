// The weighted average of RWKV-4 (kernels/wkv.h): a thread a channel, one token after the other.
#include "kernels/cuda/ops.h"

template <class T, class S>
__global__ void wkv(view<T> k, view<T> v, view<float> u, view<float> w, view<S> state, int64_t rows, int64_t cols, view<T> o) {
    GRID_LOOP(c, cols) {
        float n = get(state.row(0)[c]), d = get(state.row(1)[c]), high = get(state.row(2)[c]);
        if (d == 0) // no past yet: zeros stand for nothing at all
            high = -INFINITY;
        for (int64_t t = 0; t < rows; t++) {
            float key = get(k.row(t)[c]), value = get(v.row(t)[c]), now = key + u.p[c];
            float m = fmaxf(high, now), past = expf(high - m), own = expf(now - m);
            put(&o.row(t)[c], (past * n + own * value) / (past * d + own));
            high += w.p[c];
            m = fmaxf(high, key);
            past = expf(high - m);
            own = expf(key - m);
            n = past * n + own * value;
            d = past * d + own;
            high = m;
        }
        put(&state.row(0)[c], n);
        put(&state.row(1)[c], d);
        put(&state.row(2)[c], high);
    }
}

void cuda_wkv(backend *be, mat k, mat v, mat u, mat w, mat state, mat o) {
    ON_TYPE(k, T, ON_TYPE(state, S, wkv<T, S><<<blocks_for(k.cols, 64), 64, 0, of(be)->stream>>>(as<T>(k), as<T>(v), as<float>(u), as<float>(w), as<S>(state), k.rows, k.cols, as<T>(o))));
    launched(be, "RWKV-4 average");
}
