// Many window products or Lyapunov exponents at a time (kernels/spectrum.h, kernels/spectrum_batch.h).
// Heads of one call are alike (K, n_h, kinds); what is not, or does not suit, stays undone.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/lyapunov.h"
#include "kernels/cuda/windows.h"

#include <vector>

static const size_t MOST_BYTES = (size_t)1 << 30;
enum { MOST_K = BLOCK_MOST, MOST_LYAPUNOV_K = 128 };

// Device memory of one call: freed together, in stream order.
struct call_memory {
    backend *be;
    std::vector<void *> all;

    template <class T> T *get(size_t n) {
        void *p = NULL;
        if (!cuda_ok(be, cudaMallocAsync(&p, (n ? n : 1) * sizeof(T), of(be)->stream), "spectra"))
            return NULL;
        all.push_back(p);
        return (T *)p;
    }
    template <class T> T *put(const T *from, size_t n) {
        T *p = get<T>(n);
        if (!p ||
            !cuda_ok(
                be, cudaMemcpyAsync(p, from, n * sizeof(T), cudaMemcpyHostToDevice, of(be)->stream),
                "spectra"))
            return NULL;
        return p;
    }
    void clear() {
        for (void *p : all)
            cudaFreeAsync(p, of(be)->stream);
        all.clear();
    }
    ~call_memory() {
        clear();
    }
};

// The tokens of one head that a call needs, on the device.
struct head_tokens {
    const transitions *x;
    int64_t first, end;
    const double *k, *beta, *a, *b, *g;
};

static int64_t decay_width(const transitions *x) {
    return x->decay == TDECAY_NONE ? 0 : x->decay == TDECAY_HEAD ? 1 : x->K;
}

static bool alike(const transitions *x, const transitions *y) {
    return x->kind == y->kind && x->decay == y->decay && x->K == y->K && x->n_h == y->n_h;
}

static head_tokens &tokens_of(std::vector<head_tokens> &heads, const transitions *x, int64_t first,
                              int64_t end) {
    for (head_tokens &h : heads)
        if (h.x == x) {
            h.first = h.first < first ? h.first : first;
            h.end = h.end > end ? h.end : end;
            return h;
        }
    heads.push_back(head_tokens{x, first, end, NULL, NULL, NULL, NULL, NULL});
    return heads.back();
}

// One array of width numbers a token; none where the kind has none.
static bool upload(call_memory *m, const head_tokens &h, const double *from, int64_t width,
                   const double **to) {
    *to = NULL;
    if (!from || width == 0)
        return true;
    return (*to = m->put(from + h.first * width, (size_t)((h.end - h.first) * width))) != NULL;
}

static bool upload_all(call_memory *m, std::vector<head_tokens> &heads) {
    for (head_tokens &h : heads) {
        const transitions *x = h.x;
        if (!upload(m, h, x->k, (int64_t)x->n_h * x->K, &h.k) ||
            !upload(m, h, x->beta, x->n_h, &h.beta) || !upload(m, h, x->a, x->K, &h.a) ||
            !upload(m, h, x->b, x->K, &h.b) || !upload(m, h, x->g, decay_width(x), &h.g))
            return false;
    }
    return true;
}

// An array from a token on.
static const double *from_token(const double *p, int64_t token, int64_t width) {
    return p ? p + token * width : NULL;
}

template <class F> static bool allow_shared(backend *be, F kernel, size_t bytes) {
    return cuda_ok(
        be, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
        "shared memory of the spectra");
}

// Windows ------------------------------------------------------------------------------------------

static bool launch_products(backend *be, const window_shape &s, const window_task *tasks,
                            size_t n) {
    size_t bytes = product_doubles(&s) * sizeof(double);
    auto kernel = s.K <= 64    ? window_product<8>
                  : s.K <= 128 ? window_product<16>
                               : window_product<32>;
    if (!allow_shared(be, kernel, bytes))
        return false;
    dim3 grid((unsigned)((s.K + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS), (unsigned)n);
    kernel<<<grid, BLOCK_THREADS, bytes, of(be)->stream>>>(s, tasks);
    return cuda_ok(be, cudaGetLastError(), "window products");
}

static bool launch_solve(backend *be, const window_task *tasks, size_t n, int rows, bool columns,
                         int stride, double *re, double *im, window_result *results) {
    bool in_shared = solve_bytes(rows, true) <= shared_memory(be);
    size_t bytes = solve_bytes(rows, in_shared);
    if (!allow_shared(be, window_solve, bytes))
        return false;
    window_solve<<<(unsigned)n, BLOCK_THREADS, bytes, of(be)->stream>>>(tasks, in_shared, columns,
                                                                        stride, re, im, results);
    return cuda_ok(be, cudaGetLastError(), "window eigenvalues");
}

// jobs[which[i]], all with matrices of `rows` rows.
static bool solve_alike(backend *be, window_job *jobs, const std::vector<int64_t> &which, int rows,
                        std::vector<head_tokens> &heads, err *e) {
    const transitions *x0 = jobs[which[0]].x;
    const bool core = rows < x0->K; // a short window is shorter
    window_shape s = {x0->K,
                      x0->n_h,
                      x0->kind == TRANSITION_KEYS,
                      x0->kind == TRANSITION_DPLR,
                      x0->decay == TDECAY_CHANNEL,
                      x0->kind == TRANSITION_DPLR && x0->decay == TDECAY_HEAD};
    call_memory m = {be};
    const size_t n = which.size(), size = (size_t)rows * rows;
    const size_t work = (size_t)rows * (core ? (rows | 1) > s.K ? rows | 1 : s.K : rows | 1);
    double *P = m.get<double>(n * size), *space = m.get<double>(n * work);
    double *re = m.get<double>(n * rows), *im = m.get<double>(n * rows);
    int *exponent = m.get<int>(n * s.K);
    window_result *results = m.get<window_result>(n);
    std::vector<window_task> tasks(n);
    if (!P || !space || !re || !im || !exponent || !results)
        return false;
    for (size_t i = 0; i < n; i++) {
        const window_job &j = jobs[which[i]];
        const head_tokens &h = tokens_of(heads, j.x, j.last - j.W + 1, j.last + 1);
        int64_t t = j.last - j.W + 1 - h.first;
        tasks[i] = window_task{from_token(h.k, t, (int64_t)s.n_h * s.K),
                               from_token(h.beta, t, s.n_h),
                               from_token(h.a, t, s.K),
                               from_token(h.b, t, s.K),
                               from_token(h.g, t, decay_width(x0)),
                               j.W,
                               rows,
                               P + i * size,
                               space + i * work,
                               exponent + i * s.K};
    }
    window_task *list = m.put(tasks.data(), n);
    if (!list)
        return false;
    if (core) {
        window_core<<<(unsigned)n, BLOCK_THREADS, sizeof(block_scratch), of(be)->stream>>>(s, list);
        if (!cuda_ok(be, cudaGetLastError(), "short windows"))
            return false;
    } else if (!launch_products(be, s, list, n)) {
        return false;
    }
    if (!launch_solve(be, list, n, rows, !core, rows, re, im, results))
        return false;
    std::vector<double> got(2 * n * rows);
    std::vector<window_result> facts(n);
    cudaStream_t stream = of(be)->stream;
    size_t bytes = n * rows * sizeof(double);
    if (!cuda_ok(be, cudaMemcpyAsync(got.data(), re, bytes, cudaMemcpyDeviceToHost, stream),
                 "eigenvalues") ||
        !cuda_ok(be,
                 cudaMemcpyAsync(got.data() + n * rows, im, bytes, cudaMemcpyDeviceToHost, stream),
                 "eigenvalues") ||
        !cuda_ok(be,
                 cudaMemcpyAsync(facts.data(), results, n * sizeof(window_result),
                                 cudaMemcpyDeviceToHost, stream),
                 "eigenvalues") ||
        !cuda_ok(be, cudaStreamSynchronize(stream), "eigenvalues"))
        return false;
    std::vector<window_job> mine(n);
    std::vector<window_raw> raw(n);
    for (size_t i = 0; i < n; i++) {
        mine[i] = jobs[which[i]];
        const window_result &f = facts[i];
        raw[i] = window_raw{f.status ? 0 : rows,
                            got.data() + i * rows,
                            got.data() + (n + i) * rows,
                            f.norm2,
                            f.skew,
                            f.all,
                            f.exponent};
    }
    if (!windows_finish(mine.data(), raw.data(), (int64_t)n, e))
        return false;
    for (size_t i = 0; i < n; i++)
        jobs[which[i]].done = mine[i].done;
    return true;
}

bool cuda_window_spectra(backend *be, window_job *jobs, int64_t n, err *e) {
    if (!cuda_ok(be, cudaSetDevice(of(be)->device), "spectra"))
        return backend_check(be, e);
    std::vector<int> rows(n, 0);
    std::vector<head_tokens> heads;
    const transitions *x0 = NULL;
    for (int64_t i = 0; i < n; i++) {
        const window_job &j = jobs[i];
        if (j.x->K > MOST_K || (x0 && !alike(x0, j.x)))
            continue;
        rows[i] = window_suits(j.x, j.last, j.W);
        if (rows[i] == 0)
            continue;
        x0 = j.x;
        tokens_of(heads, j.x, j.last - j.W + 1, j.last + 1);
    }
    call_memory m = {be};
    size_t space = 0;
    if (heads.empty())
        return true;
    if (!upload_all(&m, heads) || !device_space(be, &space))
        return backend_check(be, e) && false;
    size_t most = space / 4 < MOST_BYTES ? space / 4 : MOST_BYTES;
    // Windows of one length, as many at a time as there is room for.
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] == 0)
            continue;
        size_t each =
            ((size_t)rows[i] * (2 * rows[i] + 3) + (size_t)rows[i] * x0->K) * sizeof(double) +
            x0->K * sizeof(int) + sizeof(window_task) + sizeof(window_result);
        size_t room = most / each > 0 ? most / each : 1;
        room = room < 32768 ? room : 32768; // of a grid's second dimension
        std::vector<int64_t> which;
        for (int64_t k = i; k < n && which.size() < room; k++)
            if (rows[k] == rows[i] && jobs[k].W == jobs[i].W)
                which.push_back(k);
        if (!solve_alike(be, jobs, which, rows[i], heads, e))
            return backend_check(be, e) && false;
        for (int64_t k : which)
            rows[k] = 0;
    }
    return backend_check(be, e);
}

// Exponents ----------------------------------------------------------------------------------------

static bool run_plans(backend *be, lyapunov_job *jobs, const std::vector<int64_t> &which,
                      const std::vector<lyapunov_plan> &plans) {
    call_memory m = {be};
    const size_t n = which.size();
    const transitions *x0 = jobs[which[0]].x;
    const int K = x0->K;
    std::vector<head_tokens> heads;
    for (int64_t i : which)
        tokens_of(heads, jobs[i].x, jobs[i].first, jobs[i].first + jobs[i].n);
    double *growth = m.get<double>(n * K);
    if (!growth || !upload_all(&m, heads))
        return false;
    std::vector<lyapunov_task> tasks(n);
    for (size_t i = 0; i < n; i++) {
        const lyapunov_job &j = jobs[which[i]];
        const head_tokens &h = tokens_of(heads, j.x, j.first, j.first + j.n);
        int64_t t = j.first - h.first;
        const lyapunov_op *ops = m.put(plans[i].op, (size_t)plans[i].n);
        if (!ops)
            return false;
        tasks[i] = lyapunov_task{from_token(h.k, t, (int64_t)x0->n_h * K),
                                 from_token(h.a, t, K),
                                 from_token(h.b, t, K),
                                 from_token(h.g, t, decay_width(x0)),
                                 ops,
                                 plans[i].n,
                                 growth + i * K};
    }
    lyapunov_task *list = m.put(tasks.data(), n);
    size_t bytes = lyapunov_bytes(K);
    auto kernel = K <= 64 ? lyapunov_run<8> : lyapunov_run<16>;
    unsigned threads = (unsigned)(K * LYAPUNOV_LANES + 31) / 32 * 32;
    std::vector<double> got(n * K);
    if (!list || !allow_shared(be, kernel, bytes))
        return false;
    kernel<<<(unsigned)n, threads, bytes, of(be)->stream>>>(
        list, K, (int)decay_width(x0) > 1 ? 2 : (int)decay_width(x0));
    if (!cuda_ok(be, cudaGetLastError(), "Lyapunov exponents") ||
        !cuda_ok(be,
                 cudaMemcpyAsync(got.data(), growth, n * K * sizeof(double), cudaMemcpyDeviceToHost,
                                 of(be)->stream),
                 "Lyapunov exponents") ||
        !cuda_ok(be, cudaStreamSynchronize(of(be)->stream), "Lyapunov exponents"))
        return false;
    for (size_t i = 0; i < n; i++)
        lyapunov_finish(&jobs[which[i]], &plans[i], got.data() + i * K);
    return true;
}

bool cuda_lyapunov_spectra(backend *be, lyapunov_job *jobs, int64_t n, err *e) {
    if (!cuda_ok(be, cudaSetDevice(of(be)->device), "Lyapunov exponents"))
        return backend_check(be, e);
    std::vector<int64_t> which;
    std::vector<lyapunov_plan> plans;
    for (int64_t i = 0; i < n; i++) {
        const transitions *x = jobs[i].x;
        lyapunov_plan plan;
        if (x->K > MOST_LYAPUNOV_K || lyapunov_bytes(x->K) > shared_memory(be) ||
            (!which.empty() && !alike(jobs[which[0]].x, x)) || !lyapunov_plan_make(&jobs[i], &plan))
            continue;
        which.push_back(i);
        plans.push_back(plan);
    }
    bool ok = which.empty() || run_plans(be, jobs, which, plans);
    for (lyapunov_plan &p : plans)
        lyapunov_plan_free(&p);
    return backend_check(be, e) && ok;
}
