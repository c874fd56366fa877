/* bench/plugin.h - your own kernel inside `deltop bench`: gated and timed like the built-in ones.
 *
 * A plugin is a shared object that exports one function,
 *
 *     const deltop_plugin *deltop_plugin_get(void);
 *
 * and this header is all it needs: no type of deltop, C or C++ (examples/plugin is a whole one).
 * `deltop bench --plugin ./libmine.so` then times, beside each built-in row that a kernel of the
 * plugin supports, a row of its own. Inputs are the same numbers, the same gate decides, and a wrong
 * kernel gets no time.
 *
 * What has to be computed, for one value head (H is K x V, row-major; log decays are natural):
 *
 *     H <- D_t H                    D_t = I, exp(decay[t]) I or Diag(exp(decay[t, :]))
 *     then n times                  H <- (I - beta k k^T) H + beta k v^T      DELTOP_ERASE_KEY
 *     or                            H <- H + beta k v^T                       DELTOP_ERASE_NONE
 *     or, instead of all of these   H <- (D_t + a b^T) H + beta k v^T         DELTOP_ERASE_PAIR
 *     o[t] = scale H^T q[t]         after the last of the n micro-steps
 *
 * Value head h reads key head h / (value_heads / key_heads). Rows of a batch are folded into heads:
 * a batch of B rows of H heads is B H heads that never talk to each other.
 */
#ifndef DELTOP_PLUGIN_H
#define DELTOP_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DELTOP_PLUGIN_ABI 1

enum { DELTOP_F32 = 0, DELTOP_BF16 = 1, DELTOP_F64 = 2 };
enum { DELTOP_CPU = 0, DELTOP_CUDA = 1 };
enum { DELTOP_DECAY_NONE = 0, DELTOP_DECAY_HEAD = 1, DELTOP_DECAY_CHANNEL = 2 };
enum { DELTOP_ERASE_NONE = 0, DELTOP_ERASE_KEY = 1, DELTOP_ERASE_PAIR = 2 };

/* Element (i, j) lies at data + i * stride + j, counted in elements. data is a device pointer when
 * the kernel's device is DELTOP_CUDA, NULL when the recurrence has no such input. */
typedef struct deltop_matrix {
    void *data;
    int64_t rows, cols, stride;
    int type; /* DELTOP_F32 ... */
} deltop_matrix;

typedef struct deltop_recurrence {
    int64_t tokens;                                   /* T */
    int key_heads, value_heads, key_size, value_size; /* H, Hv, K, V */
    int micro_steps;                                  /* n per token; row index t n + j */
    int decay_kind, erase_kind;
    double scale;
    deltop_matrix q;     /* [T, H K]                   activations: the case's number format */
    deltop_matrix k;     /* [T n, H K] */
    deltop_matrix v;     /* [T n, Hv V] */
    deltop_matrix beta;  /* [T n, Hv]      float (double in f64); absent: 1 */
    deltop_matrix decay; /* [T, Hv] float, or [T, Hv K] */
    deltop_matrix a, b;  /* [T, Hv K], [T, H K]        DELTOP_ERASE_PAIR */
    deltop_matrix state; /* [Hv K, V]      float (double in f64), read and written */
    deltop_matrix o;     /* [T, Hv V]      written */
    void *queue;         /* the cudaStream_t to use; NULL on the CPU */
    int threads;         /* CPU: at most that many */
} deltop_recurrence;

typedef struct deltop_kernel {
    const char *name; /* letters, digits, - and _ */
    int device;       /* DELTOP_CPU or DELTOP_CUDA */
    int type;         /* of activations: DELTOP_F32 ... */
    /* Nonzero: run would compute exactly this. Called before any timing. */
    int (*supports)(const deltop_recurrence *r);
    /* 0: done (CPU) or queued (CUDA); anything else ends the row with that number. */
    int (*run)(const deltop_recurrence *r);
} deltop_kernel;

typedef struct deltop_plugin {
    int abi; /* DELTOP_PLUGIN_ABI */
    const char *name, *version;
    int n_kernels;
    const deltop_kernel *kernels;
} deltop_plugin;

const deltop_plugin *deltop_plugin_get(void);

#ifdef __cplusplus
}
#endif

#endif
