#include "kernels/cpu/real.h"

#include "kernels/wkv.h"

void FN(wkv_run)(backend *be, mat k, mat v, mat u, mat w, mat state, mat o) {
    (void)be;
    real *num = row_of(state, 0), *den = row_of(state, 1), *top = row_of(state, 2);
    const real *bonus = u.p, *rate = w.p;
#pragma omp parallel for schedule(static) if (k.rows * k.cols > 1 << 13)
    for (int64_t c = 0; c < k.cols; c++) {
        real n = num[c], d = den[c], high = top[c];
        if (d == 0) // no past yet: zeros stand for nothing at all
            high = -INFINITY;
        for (int64_t t = 0; t < k.rows; t++) {
            real key = row_of(k, t)[c], value = row_of(v, t)[c], now = key + bonus[c];
            real m = high > now ? high : now;
            real past = real_exp(high - m), own = real_exp(now - m);
            row_of(o, t)[c] = (past * n + own * value) / (past * d + own);
            high += rate[c];
            m = high > key ? high : key;
            past = real_exp(high - m);
            own = real_exp(key - m);
            n = past * n + own * value;
            d = past * d + own;
            high = m;
        }
        num[c] = n;
        den[c] = d;
        top[c] = high;
    }
}
