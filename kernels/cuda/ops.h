// kernels/cuda/ops.h - the functions of the CUDA table, one group a file; equations, shapes and
// errors stand in the kernels/ header of the same name.
#ifndef DELTOP_CUDA_OPS_H
#define DELTOP_CUDA_OPS_H

#include "kernels/cuda/device.h"

// product.cu
void cuda_linear(backend *be, mat x, mat w, mat bias, mat y);
void cuda_linear_exact(backend *be, mat x, mat w, mat bias, mat y);
void cuda_linear_add(backend *be, mat x, mat w, mat bias, double scale, mat y);
void products_close(cuda_backend *c);
// gated_product.cu: false when these are not for it
bool cuda_linear_gated(backend *be, mat x, mat w, activation act, mat y);
// conv_product.cu: false when these are not for it
bool cuda_linear_conv(backend *be, mat x, mat w, const conv_part *part, int n);
// thin.cu: false when these are not for it
bool cuda_thin_product(backend *be, mat x, mat w, mat y);
// dense.cu
void cuda_embed(backend *be, mat table, const int32_t *ids, mat y);
void cuda_add(backend *be, mat x, double scale, mat y);
void cuda_add_rows(backend *be, mat x, const int32_t *rows, const double *scale, mat y);
// norm.cu
void cuda_rms_norm(backend *be, mat x, mat w, double eps, mat y);
void cuda_normalize_heads(backend *be, mat x, int64_t head_dim, head_norm kind, double eps);
void cuda_head_norms(backend *be, mat x, mat y);
void cuda_layer_norm(backend *be, mat x, mat w, mat bias, int64_t group, double eps, mat y);
// pointwise.cu
void cuda_activate(backend *be, mat x, activation act, double scale);
void cuda_multiply(backend *be, mat gate, activation act, mat x);
void cuda_scale_heads(backend *be, mat x, mat s, double c, int64_t head_dim, mat y);
void cuda_log_decay(backend *be, mat x, mat a_log, mat dt_bias, double lower_bound);
void cuda_log_forget(backend *be, mat x, mat least, double divisor, double clamp);
void cuda_time_step(backend *be, mat x, mat bias, double lo, double hi);
// shift.cu
void cuda_token_shift(backend *be, mat x, mat tail, mat y);
void cuda_mix(backend *be, mat x, mat d, mat m, mat y);
void cuda_dot_heads(backend *be, mat x, mat z, mat w, int64_t head_dim, mat y);
void cuda_divide_heads(backend *be, mat d, double eps, int64_t head_dim, mat x);
void cuda_broadcast(backend *be, mat row, mat y);
// wkv.cu
void cuda_wkv(backend *be, mat k, mat v, mat u, mat w, mat state, mat o);
// conv_heads.cu: false when these parts are not for it
bool cuda_conv_heads(backend *be, mat x, const conv_part *part, int n);
// conv.cu
void cuda_short_conv(backend *be, mat x, mat w, mat bias, mat tail, activation act, mat y);
// recurrence.cu
void cuda_recurrence(backend *be, const steps *s, mat state, mat o);
bool cuda_recurrence_rows(backend *be, const steps *s, const step_rows *r, mat state, mat o);
// The step form of columns of heads whose marks ([H][V / MARK_COLUMNS, rounded up], on the device; NULL: all) are not
// zero, from the states in start, which may be state. beta must be float; K at most 512, else be->fail.
enum { MARK_COLUMNS = 16 };
void cuda_steps_where_marked(backend *be, const steps *s, mat start, const int *marks, mat state,
                             mat o);
// erase_steps.cu: decays per channel or pairs of vectors, in chunks; false when this device or shape is not for it.
bool cuda_erase_recurrence(backend *be, const steps *s, mat state, mat o);
// delta_steps.cu: bfloat16 on Hopper; false when this device or shape is not for it; beta and decay must
// be float. r: NULL, or rows and boundary states.
bool cuda_delta_recurrence(backend *be, const steps *s, const step_rows *r, mat state, mat o);
// chunk.cu: false when this device or shape is not for it; beta and decay must be float.
bool cuda_chunk_recurrence(backend *be, const steps *s, mat state, mat o);
// linear_steps.cu: without an erase term; false when this device or shape is not for it, or steps are faster.
bool cuda_linear_recurrence(backend *be, const steps *s, mat state, mat o);
// attention.cu
void cuda_rotate(backend *be, mat x, int64_t head_dim, int64_t turned, int64_t first_position,
                 double base);
void cuda_attention(backend *be, mat q, mat k, mat v, int64_t head_dim, int64_t first_query,
                    int64_t window, mat o);
// loss.cu
void cuda_losses(backend *be, mat x, mat head, const int32_t *targets, double *loss, int32_t *best);
// states.cu
bool cuda_state_svals(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                      const int64_t *at, int64_t n, double *sv, double *fro, err *e);
// states_host.cu
bool states_svals_on_host(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                          const int64_t *at, int64_t n, double *sv, double *fro, err *e);
// timing.cu
void cuda_mark(backend *be, int i);
double cuda_elapsed(backend *be, int from, int to);
void cuda_wait(backend *be);
void cuda_evict(backend *be);
void *cuda_queue(backend *be);
void timing_close(cuda_backend *c);

// windows.cu
bool cuda_window_spectra(backend *be, window_job *jobs, int64_t n, err *e);
bool cuda_lyapunov_spectra(backend *be, lyapunov_job *jobs, int64_t n, err *e);

#endif
