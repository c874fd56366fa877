// kernels/pointwise.h - activations, gates and the log decay.
//
//   activate     x = scale act(x), in place
//   multiply     x *= act(gate), in place on x
//   scale_heads  y[t, h, :] = c s[t, h] x[t, h / r, :]   s [T, H] or [1, H], x [T, Hx * d], y [T, H * d],
//                                                        r = H / Hx
//                s none: 1, which repeats heads; y may be x where r = 1
//   log_forget   x = max(clamp, ln(l + (1 - l) sigmoid(x)) / divisor)   x [T, D] in place, l [1, D]
//                in [0, 1) or none (0); clamp -inf: none (GLA: science R04; HGRN2: R05)
//   log_decay    x = -exp(A_h) softplus(x + dt)           lower_bound NaN
//                x = lower_bound sigmoid(exp(A_h) (x + dt))
//                x [T, H * c] in place, A [1, H] (none: exp(A) = 1), dt [1, H * c] or none; the result
//                is a natural log, never positive (science.md section 0; KDA: fault B34)
//   time_step    x = min(max(softplus(x + bias), lo), hi), in place; x [T, H], bias [1, H] or none
#include "core/backend.h"

void FN(pointwise_activate)(backend *be, mat x, activation act, double scale);
void FN(pointwise_multiply)(backend *be, mat gate, activation act, mat x);
void FN(pointwise_scale_heads)(backend *be, mat x, mat s, double c, int64_t head_dim, mat y);
void FN(pointwise_log_decay)(backend *be, mat x, mat a_log, mat dt_bias, double lower_bound);
void FN(pointwise_time_step)(backend *be, mat x, mat bias, double lo, double hi);
void FN(pointwise_log_forget)(backend *be, mat x, mat least, double divisor, double clamp);
