// DeltaProduct and Gated DeltaProduct (arXiv:2502.10297), in flash-linear-attention's layout and in
// the list layout of its authors.
//
//     H <- g_t H_{t-1};  n_h times: H <- (I - beta_j k_j k_j^T) H + beta_j k_j v_j^T  (science R12, R13)
//
// The gate applies once per token. use_gate is the old name of use_output_gate (fault B21).
#include "core/families/fla.h"

static module *deltaproduct_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.erase = ERASE_KEY};
    fla_options opt = {0};
    int64_t n_h = 0;
    bool forget = false;
    char gate[300], decay[300];
    build_name(gate, sizeof gate, prefix, "g_proj.weight");
    build_name(decay, sizeof decay, prefix, "a_proj.weight");
    if (!fla_head_sizes(b, 6, 256, 2, &s, &opt, e) ||
        !config_int(b->cfg, "num_householder", 1, 64, &n_h, e) ||
        !build_switch(b, "use_output_gate", "use_gate", gate, &opt.gate, e) ||
        !build_switch(b, "use_forget_gate", NULL, decay, &forget, e))
        return NULL;
    s.n_h = (int)n_h;
    s.decay = forget ? DECAY_HEAD : DECAY_NONE;
    fla_gated *d = fla_gated_new(e);
    if (!d)
        return NULL;
    d->base.kind = forget ? "gated delta product" : "delta product";
    if (fla_heads_bind(&d->h, &d->base, b, prefix, &s, &opt, e) &&
        (!forget || fla_gate_bind(&d->decay, b, prefix, s.H, e)))
        return &d->base;
    d->base.free(&d->base, b->be);
    return NULL;
}

static bool deltaproduct_build(builder *b, err *e) {
    return fla_build(b, deltaproduct_new, e);
}

const family family_gated_deltaproduct = {
    .names = {"gated_deltaproduct", "gated_delta_product"},
    .summary = "DeltaProduct: n_h delta steps per token, with or without a forget gate",
    .build = deltaproduct_build,
};
