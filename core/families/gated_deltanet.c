// Gated DeltaNet (arXiv:2412.06464), in flash-linear-attention's layout.
//
//     H_t = (I - beta k k^T) g_t H_{t-1} + beta k v^T            (science R07)
//
// Value head h reads key head h / (H / Hk). The output gate is SiLU on the normed read-out.
#include "core/families/fla.h"

static module *gated_deltanet_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.n_h = 1, .decay = DECAY_HEAD, .erase = ERASE_KEY};
    fla_options opt = {0};
    char name[300];
    build_name(name, sizeof name, prefix, "g_proj.weight");
    if (!fla_head_sizes(b, 6, 256, 2, &s, &opt, e) ||
        !build_switch(b, "use_gate", NULL, name, &opt.gate, e))
        return NULL;
    fla_gated *d = fla_gated_new(e);
    if (!d)
        return NULL;
    if (!fla_heads_bind(&d->h, &d->base, b, prefix, &s, &opt, e) ||
        !fla_gate_bind(&d->decay, b, prefix, s.H, e)) {
        d->base.free(&d->base, b->be);
        return NULL;
    }
    // Files written before 2025-03 carry a D that no forward pass ever read.
    build_dead(b, "D of early Gated DeltaNet files was never read",
               build_name(name, sizeof name, prefix, "D"));
    return &d->base;
}

static bool gated_deltanet_build(builder *b, err *e) {
    return fla_build(b, gated_deltanet_new, e);
}

const family family_gated_deltanet = {
    .names = {"gated_deltanet", "gated_delta_net"},
    .summary = "Gated DeltaNet: delta rule with one forget gate per head",
    .build = gated_deltanet_build,
};
