// Head sizes and the scalar forget gate that the gated families share.
#include "core/families/fla.h"
#include "core/forward.h"

#include <math.h>

bool fla_gate_bind(fla_gate *g, builder *b, const char *prefix, int64_t H, err *e) {
    char name[300];
    return build_weight(b, &g->a, H, b->m->info.D,
                        build_name(name, sizeof name, prefix, "a_proj.weight"), e) &&
           build_weight(b, &g->a_log, 1, H, build_name(name, sizeof name, prefix, "A_log"), e) &&
           build_weight(b, &g->dt_bias, 1, H, build_name(name, sizeof name, prefix, "dt_bias"), e);
}

void fla_gate_free(fla_gate *g, backend *be) {
    if (!be)
        return;
    be->op->free(be, g->a);
    be->op->free(be, g->a_log);
    be->op->free(be, g->dt_bias);
}

mat fla_gate_run(fla_gate *g, fwd *f, mat x) {
    mat decay = fwd_linear_exact(f, x, g->a, MAT_NONE);
    if (!mat_none(decay))
        f->be->op->log_decay(f->be, decay, g->a_log, g->dt_bias, NAN);
    return decay;
}

bool fla_head_sizes(builder *b, int64_t heads, int64_t head_dim, double expand_v, head_shape *s,
                    fla_options *opt, err *e) {
    int64_t Hk = 0, H = 0, K = 0;
    bool neg = false;
    if (!config_int_or(b->cfg, "num_heads", 1, 65536, heads, &Hk, e) ||
        !config_int_or(b->cfg, "num_v_heads", 1, 65536, Hk, &H, e) ||
        !config_int_or(b->cfg, "head_dim", 1, 65536, head_dim, &K, e) ||
        !config_real_or(b->cfg, "expand_v", expand_v, &expand_v, e) ||
        !config_bool_or(b->cfg, "allow_neg_eigval", false, &neg, e) ||
        !config_bool_or(b->cfg, "use_short_conv", true, &opt->conv, e) ||
        !config_int_or(b->cfg, "conv_size", 1, 64, 4, &opt->width, e))
        return false;
    double V = (double)K * expand_v;
    if (H % Hk != 0)
        return err_set(e, ERR_INPUT, "%s: num_v_heads %lld is no multiple of num_heads %lld",
                       config_path(b->cfg), (long long)H, (long long)Hk);
    if (!(V >= 1 && V <= 65536) || V != floor(V))
        return err_set(e, ERR_INPUT, "%s: expand_v %g times head_dim %lld is no whole head size",
                       config_path(b->cfg), expand_v, (long long)K);
    s->H = (int)H;
    s->Hk = (int)Hk;
    s->K = (int)K;
    s->V = (int)V;
    s->beta_max = neg ? 2 : 1;
    s->scale = 1 / sqrt((double)K);
    return true;
}

bool fla_expanded(builder *b, double expand_k, double expand_v, int64_t H, int64_t *K, int64_t *V,
                  err *e) {
    double D = (double)b->m->info.D, nk = floor(D * expand_k), nv = floor(D * expand_v);
    if (!(nk >= 1 && nk <= 1 << 24 && nv >= 1 && nv <= 1 << 24) || (int64_t)nk % H != 0 ||
        (int64_t)nv % H != 0)
        return err_set(e, ERR_INPUT,
                       "%s: num_heads %lld does not divide %.0f key and %.0f value channels",
                       config_path(b->cfg), (long long)H, nk, nv);
    *K = (int64_t)nk / H;
    *V = (int64_t)nv / H;
    return true;
}

bool fla_linear_sizes(builder *b, head_shape *s, fla_options *opt, err *e) {
    int64_t Hk, H, K, V;
    *opt = (fla_options){.conv = true};
    if (!config_int(b->cfg, "linear_num_key_heads", 1, 65536, &Hk, e) ||
        !config_int(b->cfg, "linear_num_value_heads", 1, 65536, &H, e) ||
        !config_int(b->cfg, "linear_key_head_dim", 1, 65536, &K, e) ||
        !config_int(b->cfg, "linear_value_head_dim", 1, 65536, &V, e) ||
        !config_int_or(b->cfg, "linear_conv_kernel_dim", 1, 64, 4, &opt->width, e))
        return false;
    if (H % Hk != 0)
        return err_set(
            e, ERR_INPUT,
            "%s: linear_num_value_heads %lld is no multiple of linear_num_key_heads %lld",
            config_path(b->cfg), (long long)H, (long long)Hk);
    *s = (head_shape){.H = (int)H,
                      .Hk = (int)Hk,
                      .K = (int)K,
                      .V = (int)V,
                      .n_h = 1,
                      .decay = DECAY_HEAD,
                      .erase = ERASE_KEY,
                      .scale = 1 / sqrt((double)K),
                      .beta_max = 1};
    return true;
}
