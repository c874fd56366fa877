// core/modules/moe.h - mixture of experts: a router chooses top_k of the expert MLPs for each token.
//
//     y = scaling sum_{e chosen} p_e W_down,e (act(W_gate,e x) * (W_up,e x)) + shared(x)
//
// Router logits l = W_router x. Ties go to the lower expert. Routing runs on the host in double; the
// experts run one after the other on the tokens that chose them, so sums do not depend on threads.
#ifndef DELTOP_MOE_H
#define DELTOP_MOE_H

#include "core/families/family.h"

typedef enum {
    ROUTER_SOFTMAX,        // p = softmax of all logits, then the top_k largest
    ROUTER_CHOSEN_SOFTMAX, // the top_k largest logits, then softmax over those
    ROUTER_SIGMOID,        // p = sigmoid(l); chosen by p + bias, weighed by p alone
} router_kind;

typedef struct router {
    router_kind kind;
    int64_t experts, top_k;
    bool renormalize; // the chosen p divided by their sum
    double scaling;   // 0 = 1
    // Experts in `groups` equal groups (0, 1: none): only the top_groups groups with the largest sum
    // of their two best scores may be chosen from.
    int64_t groups, top_groups;
} router;

// Names are relative to the prefix. All experts in two 3-D tensors (gate_up [E, 2I, D]: gate rows,
// then up rows; down_all [E, D, I]) when the file has `gate_up` or the family knows no list; else one
// tensor per expert: LIST.e.GATE, LIST.e.UP, LIST.e.DOWN.
typedef struct moe_spec {
    router router;
    int64_t width; // I
    activation act;
    const char *router_name; // [E, D]
    const char *bias_name;   // [E], NULL: none
    const char *gate_up, *down_all;
    const char *list, *gate, *up, *down; // gate NULL: no gate matrix, act of up alone
    module *shared;                      // taken, also on failure; NULL: none
    const char *shared_gate;             // [1, D]: shared(x) times its sigmoid; NULL: none
} moe_spec;

// NULL: *e is filled.
module *moe_new(builder *b, const char *prefix, const moe_spec *s, err *e);

// The choice for one token: expert[top_k], weight[top_k] (scaling included), best first. bias [E] or
// NULL; score is scratch of 2 E numbers.
void moe_route(const router *r, const double *logits, const double *bias, double *score,
               int32_t *expert, double *weight);

#endif
