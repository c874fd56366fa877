// core/backend.h - the interface of a device: every operation of a forward pass and of the spectra.
//
// A backend is a table of functions and its state. The CPU fills one table per precision
// (kernels/cpu), CUDA another (kernels/cuda); nobody else knows which one runs. Equations stand in
// the kernels/ header that a comment names. Operations of the forward pass do not return
// errors: the first failure is kept and reported by backend_check, so that a family's forward reads
// like the paper. Mats belong to the backend that allocated them.
//
// Activations and matrices have elements of esize bytes. Decays, betas, states and weights of one row
// (norms, biases, gates) have exact_esize where that is wider. Factors and results of one operation
// otherwise agree, and linear's x and w always do.
#ifndef DELTOP_BACKEND_H
#define DELTOP_BACKEND_H

#include "core/complex_f64.h"
#include "core/err.h"
#include "core/mat.h"
#include "core/precision.h"
#include "core/steps.h"
#include "core/transitions.h"

#include <stddef.h>

typedef enum {
    ACT_NONE,
    ACT_SILU,
    ACT_SIGMOID,
    ACT_RELU,
    ACT_ELU1, // elu(x) + 1
    ACT_TANH,
    ACT_RELU2,         // relu(x)^2
    ACT_ONE_MINUS_EXP, // 1 - e^x: the part that a log decay lets go
} activation;
typedef enum { HEAD_NORM_NONE, HEAD_NORM_L2, HEAD_NORM_L1, HEAD_NORM_L2_FLOOR } head_norm;

// How recurrences are run: micro-step by micro-step, or in chunks (kernels/chunk.h). AUTO takes what is
// faster. Chunk falls back to step where it does not exist. PORTABLE is AUTO without kernels for one kind
// of device, so that their twins can be tested where they exist.
typedef enum {
    RECURRENCE_AUTO,
    RECURRENCE_STEP,
    RECURRENCE_CHUNK,
    RECURRENCE_PORTABLE
} recurrence_form;

typedef struct backend backend;
typedef struct step_rows step_rows; // core/rows.h

// One of several convolutions that read neighbouring columns of one matrix:
// y = head_norm(act(short_conv(x's columns))), y [T, channels].
typedef struct conv_part {
    mat w, bias, tail; // as in short_conv
    activation act;
    head_norm norm; // of heads of head_dim columns, with eps
    int64_t head_dim;
    double eps;
    mat y;
} conv_part;

// Singular values below this share of the largest are not resolved in a float32 state: analyses of
// float32 runs count them as zero, and backends may be wrong about them.
#define SVALS_CUT 1e-7

// One of many windows, of many stretches of exponents (kernels/spectrum.h: window_spectrum without
// condition numbers, lyapunov). done: the results are there.
typedef struct window_job {
    const transitions *x;
    int64_t last, W;
    complex_f64 *eig;
    window_facts *facts;
    bool done;
} window_job;
typedef struct lyapunov_job {
    const transitions *x;
    int64_t first, n;
    double *exponents;
    bool done;
} lyapunov_job;

typedef struct backend_ops {
    // Memory. alloc: zeroed rows x cols of the precision's element; MAT_NONE on failure. read and
    // write move one mat to and from doubles on the host, row by row, without gaps there.
    mat (*alloc)(backend *be, int64_t rows, int64_t cols);
    // The same with elements of exact_esize: states, gates, norms and other small weights, which stay
    // in float32 where matrices are bfloat16.
    mat (*alloc_exact)(backend *be, int64_t rows, int64_t cols);
    void (*free)(backend *be, mat m);
    void (*zero)(backend *be, mat m);
    void (*copy)(backend *be, mat from, mat to);
    void (*read)(backend *be, mat from, double *to);
    void (*write)(backend *be, const double *from, mat to);

    // Layers. kernels/dense.h
    void (*embed)(backend *be, mat table, const int32_t *ids, mat y);
    void (*linear)(backend *be, mat x, mat w, mat bias, mat y); // y = x w^T (+ bias)
    // The same with products of float32 or wider whatever the precision: gates, betas, decays.
    void (*linear_exact)(backend *be, mat x, mat w, mat bias, mat y);
    void (*add)(backend *be, mat x, double scale, mat y); // y += scale x
    // kernels/norm.h
    void (*rms_norm)(backend *be, mat x, mat w, double eps, mat y);
    void (*normalize_heads)(backend *be, mat x, int64_t head_dim, head_norm kind, double eps);
    // kernels/pointwise.h
    void (*activate)(backend *be, mat x, activation act, double scale); // x = scale act(x)
    void (*multiply)(backend *be, mat gate, activation act, mat x);     // x *= act(gate)
    void (*scale_heads)(backend *be, mat x, mat s, double c, int64_t head_dim, mat y);
    void (*log_decay)(backend *be, mat x, mat a_log, mat dt_bias, double lower_bound);
    // kernels/conv.h
    void (*short_conv)(backend *be, mat x, mat w, mat bias, mat tail, activation act, mat y);
    // kernels/recurrence.h
    void (*recurrence)(backend *be, const steps *s, mat state, mat o);
    // kernels/attention.h
    void (*rotate)(backend *be, mat x, int64_t head_dim, int64_t turned, int64_t first_position,
                   double base);
    void (*attention)(backend *be, mat q, mat k, mat v, int64_t head_dim, int64_t first_query,
                      int64_t window, mat o);
    // kernels/loss.h
    void (*losses)(backend *be, mat x, mat head, const int32_t *targets, double *loss,
                   int32_t *best);
    // kernels/norm.h: LayerNorm of every `group` columns of a row
    void (*layer_norm)(backend *be, mat x, mat w, mat bias, int64_t group, double eps, mat y);
    // kernels/shift.h
    void (*token_shift)(backend *be, mat x, mat tail, mat y); // y = row before - row
    void (*mix)(backend *be, mat x, mat d, mat m, mat y);     // y = x + d * m
    // kernels/norm.h: y[h] = norm of head h of a state
    void (*head_norms)(backend *be, mat x, mat y);
    void (*dot_heads)(backend *be, mat x, mat z, mat w, int64_t head_dim, mat y);
    void (*divide_heads)(backend *be, mat d, double eps, int64_t head_dim, mat x);
    void (*broadcast)(backend *be, mat row, mat y); // every row of y = row
    // kernels/pointwise.h
    void (*log_forget)(backend *be, mat x, mat least, double divisor, double clamp);

    // kernels/dense.h: y[rows[i], :] += scale[i] x[i, :]
    void (*add_rows)(backend *be, mat x, const int32_t *rows, const double *scale, mat y);
    // kernels/pointwise.h: x = clamp(softplus(x + bias), lo, hi)
    void (*time_step)(backend *be, mat x, mat bias, double lo, double hi);
    // kernels/wkv.h
    void (*wkv)(backend *be, mat k, mat v, mat u, mat w, mat state, mat o);

    // Fused operations, NULL where a backend has none: core/forward.h and core/rows.h compose them then.
    // Rounding is that of the composition or less.
    void (*linear_add)(backend *be, mat x, mat w, mat bias, double scale,
                       mat y); // y += scale (x w^T + bias)
    // False: these parts are not for it, and nothing has been done.
    bool (*conv_heads)(backend *be, mat x, const conv_part *part, int n);
    // y = act(x gate^T) * (x up^T); w [2 width, D]: gate's rows, then up's. False as above.
    bool (*linear_gated)(backend *be, mat x, mat w, activation act, mat y);
    // conv_heads of x w^T's columns, which nobody else reads. False as above.
    bool (*linear_conv)(backend *be, mat x, mat w, const conv_part *part, int n);
    // core/rows.h: rows of different lengths, states on the way. False: nothing has been done.
    bool (*recurrence_rows)(backend *be, const steps *s, const step_rows *r, mat state, mat o);
    // Bytes that the device could still give, beside whatever else runs on it.
    int64_t (*free_bytes)(backend *be);

    // Spectra. These return errors. kernels/states.h: singular values of the states after `at[i]`
    // micro-steps of the block (0 = the state it starts from), heads in heads[0..n_heads).
    // sv: [n_heads, n, min(K, V)] descending; fro: [n_heads, n].
    bool (*state_svals)(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                        const int64_t *at, int64_t n, double *sv, double *fro, err *e);
    // kernels/spectrum.h, on host arrays; any number of threads may call these at once
    bool (*window_spectrum)(backend *be, const transitions *x, int64_t last, int64_t W,
                            complex_f64 *eig, double *cond, window_facts *facts, err *e);
    bool (*lyapunov)(backend *be, const transitions *x, int64_t first, int64_t n, double *exponents,
                     err *e);
    // Many at a time; NULL where one at a time is as good. Jobs that are special in any way are left
    // undone: the two functions above do them, and name a fault. From one thread.
    bool (*window_spectra)(backend *be, window_job *jobs, int64_t n, err *e);
    bool (*lyapunov_spectra)(backend *be, lyapunov_job *jobs, int64_t n, err *e);
    void (*ledger)(backend *be, const transitions *x, double *ledger);
    bool (*token_spectrum)(backend *be, const transitions *x, int64_t t, complex_f64 *eig, err *e);

    // Timing, for bench/. mark puts point i of BACKEND_MARKS behind the work queued so far; elapsed
    // waits for two points and gives the seconds between them on the device's own clock (NaN when
    // that fails). wait: until everything queued is done. evict is queued like an operation:
    // behind it the last cache before memory holds nothing of what it held.
    void (*mark)(backend *be, int i);
    double (*elapsed)(backend *be, int from, int to);
    void (*wait)(backend *be);
    void (*evict)(backend *be);
    // The queue that operations go to (a cudaStream_t), for kernels from elsewhere; NULL: none.
    void *(*queue)(backend *be);
    void (*close)(backend *be);
} backend_ops;

enum { BACKEND_MARKS = 64 };

struct backend {
    const backend_ops *op;
    const char *device; // "cpu", for people: "NVIDIA H200 (cuda:0)"
    char pci[32];       // of a GPU, as the driver's tools call it ("0000:1b:00.0"); "" on the CPU
    precision prec;
    int esize;                  // bytes of one element of a mat
    int exact_esize;            // the same of alloc_exact: never below 4
    int threads;                // of the host, for analyses of host arrays
    int64_t block;              // tokens at a time that suit it, for a model of moderate width
    int64_t most_block;         // and where more repays nothing, given the memory; 0: as block
    recurrence_form recurrence; // AUTO unless whoever opened it says otherwise
    bool reentrant; // several host threads may call operations at once, on mats of their own
    err fail;       // first failure of an operation since the last backend_check
    // What the last recurrence ran ("chunk, f32 FMA": static text), and why it was chosen where there
    // was a choice to make; "" otherwise.
    const char *kernel;
    char kernel_why[256];
    // Told by an operation that is made of several kernels behind each of them (bench sets it); NULL:
    // nobody listens. name is static.
    void (*on_phase)(backend *be, const char *name);
    void *phase_ctx;
};

// False and *e filled when an operation has failed since the last call.
bool backend_check(backend *be, err *e);
void backend_close(backend *be); // NULL is fine

#endif
