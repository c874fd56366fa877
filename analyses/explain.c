// The table of recurrences. A new one is a row here and its functions in explain_math.c.
#include "analyses/explain_math.h"

#include "core/text.h"

#include <ctype.h>
#include <string.h>

// Symbols: H state (K x V), k key, v value, beta write strength, alpha decay that depends on the
// token, gamma decay that does not; <x, y> inner product, |.| Euclidean (Frobenius) norm.
const recurrence recurrences[] = {
    {
        .id = "R01",
        .name = "Linear attention",
        .alias = "la linear-attention",
        .families = "linear_attn",
        .idea = "Adds every pair it sees and forgets nothing.",
        .loss = "L(H) = −⟨Hᵀk, v⟩",
        .gradient = "∇L = −k vᵀ",
        .update = "H ← H + k vᵀ",
        .transition = "A = I",
        .brief = "I",
        .spectrum = "1, K times.",
        .bound = "Every product of A is I: nothing is lost, and nothing grows by itself. The state "
                 "does: ‖H‖ grows with what is added, since A alone does not bound it (G09).",
        .caution = "Literal. The loss is linear, so one step never overshoots and never converges.",
        .kind = GRADIENT_LITERAL,
        .decay = DECAY_NONE,
        .erase = ERASE_NONE,
        .n_h = 1,
        .loss_at = explain_loss_write,
        .own = explain_own_write,
    },
    {
        .id = "R02",
        .name = "RetNet",
        .alias = "retention",
        .families = "retnet",
        .idea = "Linear attention that fades at one fixed rate a head.",
        .loss = "L(H) = −β ⟨Hᵀk, v⟩ + ½ ‖√(1−γ) H‖²",
        .gradient = "∇L = −β k vᵀ + (1−γ) H",
        .update = "H ← γ H + β k vᵀ",
        .transition = "A = γ I",
        .brief = "γ I",
        .spectrum = "γ, K times.",
        .bound = "γ = 1 − 2^(−5−h) for head h is inside (0, 1) by construction; a product over W "
                 "tokens is γ^W I, so the half-life of a head is a constant, ln 2 / −ln γ.",
        .caution = "Literal. The published layer has β = 1.",
        .kind = GRADIENT_LITERAL,
        .decay = DECAY_HEAD,
        .erase = ERASE_NONE,
        .n_h = 1,
        .beta_max = 1,
        .loss_at = explain_loss_write,
        .own = explain_own_write,
        .special = explain_draw_retnet,
    },
    {
        .id = "R03",
        .name = "Mamba-2",
        .alias = "simple-gla ssd",
        .families = "mamba2 simple_gla falcon_h1 bamba granitemoehybrid nemotron_h",
        .idea = "Linear attention whose head fades by an amount that the token decides.",
        .loss = "L(H) = −β ⟨Hᵀk, v⟩ + ½ ‖√(1−α) H‖²",
        .gradient = "∇L = −β k vᵀ + (1−α) H",
        .update = "H ← α H + β k vᵀ",
        .transition = "A = α I",
        .brief = "α I",
        .spectrum = "α, K times.",
        .bound = "α = exp(−exp(A_log) Δ) with Δ > 0 is inside (0, 1). A product is exp(Σ ln α) I: "
                 "exact from summed log decays, however long the window.",
        .caution = "Literal. In Mamba-2's own words k is B, q is C, v is Δ x (so β = 1 with the "
                   "step size inside the value), K the state size, and the read-out has scale 1. "
                   "Simple GLA is the same recurrence with its own gate.",
        .kind = GRADIENT_LITERAL,
        .decay = DECAY_HEAD,
        .erase = ERASE_NONE,
        .n_h = 1,
        .beta_max = 1,
        .loss_at = explain_loss_write,
        .own = explain_own_write,
    },
    {
        .id = "R04",
        .name = "GLA",
        .alias = "gated-linear-attention",
        .families = "gla",
        .idea = "Every key channel fades at its own rate, chosen by the token.",
        .loss = "L(H) = −⟨Hᵀk, v⟩ + ½ ‖√Diag(1−α) H‖²",
        .gradient = "∇L = −k vᵀ + Diag(1−α) H",
        .update = "H ← Diag(α) H + k vᵀ",
        .transition = "A = Diag(α)",
        .brief = "Diag(α)",
        .spectrum = "α₁ ... α_K, one of each key channel.",
        .bound = "ln α = logsigmoid(.)/16, so 0 < α < 1; diagonal matrices commute, and the rows "
                 "of H decay independently of each other.",
        .caution = "Literal. RWKV-6 decays in this way, too (its read-out differs).",
        .kind = GRADIENT_LITERAL,
        .decay = DECAY_CHANNEL,
        .erase = ERASE_NONE,
        .n_h = 1,
        .loss_at = explain_loss_write,
        .own = explain_own_write,
    },
    {
        .id = "R05",
        .name = "HGRN2",
        .alias = "",
        .families = "hgrn2",
        .idea = "GLA whose key is what the gate lets go: room is made exactly where it writes.",
        .loss = "L(H) = −⟨Hᵀ(1−α), v⟩ + ½ ‖√Diag(1−α) H‖²",
        .gradient = "∇L = −(1−α) vᵀ + Diag(1−α) H",
        .update = "H ← Diag(α) H + (1−α) vᵀ",
        .transition = "A = Diag(α)",
        .brief = "Diag(α)",
        .spectrum = "α₁ ... α_K, one of each key channel.",
        .bound = "Lower bounds, where the model has them, rise with depth and keep α above them. "
                 "Each row of H is a "
                 "running mean of the values: with a constant v it tends to v, so the state "
                 "itself is bounded by the largest value.",
        .caution = "Literal. The gradient vanishes where row i of H equals v.",
        .kind = GRADIENT_LITERAL,
        .decay = DECAY_CHANNEL,
        .erase = ERASE_NONE,
        .n_h = 1,
        .loss_at = explain_loss_write,
        .own = explain_own_write,
        .special = explain_draw_hgrn2,
    },
    {
        .id = "R06",
        .name = "DeltaNet",
        .alias = "delta-net delta-rule",
        .families = "delta_net",
        .idea = "Looks up what the key returns now, and writes only the difference.",
        .loss = "L(H) = β/2 ‖Hᵀk − v‖²",
        .gradient = "∇L = β k (Hᵀk − v)ᵀ",
        .update = "H ← (I − β k kᵀ) H + β k vᵀ",
        .transition = "A = I − β k kᵀ",
        .brief = "F",
        .spectrum = "1, K−1 times, and 1 − β k·k along k.",
        .bound = "0 ≤ β k·k ≤ 2 keeps it in [−1, 1] and ‖A‖ ≤ 1: no product of A can grow (G08). "
                 "β = 0 leaves, 1 projects, 2 mirrors. A window of W tokens leaves at least K − W "
                 "directions untouched, with eigenvalue exactly 1 (G11). Products can have "
                 "complex pairs although single steps cannot, if both β exceed 1 (G03).",
        .caution = "Literal: one step of gradient descent with rate β. With a unit key and β = 1 "
                   "the pair is stored exactly. The eigenvalue is 1 − β k·k, not 1 − β: the L2 "
                   "norm's eps leaves k·k a little below 1.",
        .kind = GRADIENT_LITERAL,
        .decay = DECAY_NONE,
        .erase = ERASE_KEY,
        .n_h = 1,
        .beta_max = 2,
        .loss_at = explain_loss_regression,
        .own = explain_own_delta,
    },
    {
        .id = "R07",
        .name = "Gated DeltaNet",
        .alias = "gdn",
        .families = "gated_deltanet gated_delta_net qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe "
                    "qwen3_5_moe_text olmo_hybrid hf_gpt",
        .idea = "Fades the whole state, then corrects what the key points at.",
        .loss = "L(X) = β/2 ‖Xᵀk − v‖², at X = α H",
        .gradient = "∇L = β k (Xᵀk − v)ᵀ",
        .update = "H ← (I − β k kᵀ) α H + β k vᵀ",
        .transition = "A = α (I − β k kᵀ)",
        .brief = "α F",
        .spectrum = "α, K−1 times, and α (1 − β k·k) along k.",
        .bound = "‖A‖ ≤ α ≤ 1 for 0 ≤ β k·k ≤ 2. det A = α^K (1 − β k·k), so the mean rate of a "
                 "window is known from gates, β and k·k alone (G12).",
        .caution = "The gradient is literal only at the decayed state α H; at H itself it misses "
                   "(E18). Decay comes first: the key reads what is left after it.",
        .kind = GRADIENT_DECAYED,
        .decay = DECAY_HEAD,
        .erase = ERASE_KEY,
        .n_h = 1,
        .beta_max = 2,
        .loss_at = explain_loss_regression,
        .own = explain_own_delta,
    },
    {
        .id = "R08",
        .name = "KDA",
        .alias = "kimi-delta-attention",
        .families = "kda kimi_linear",
        .idea = "Gated DeltaNet with a decay of its own for every key channel.",
        .loss = "L(X) = β/2 ‖Xᵀk − v‖², at X = Diag(α) H",
        .gradient = "∇L = β k (Xᵀk − v)ᵀ",
        .update = "H ← (I − β k kᵀ) Diag(α) H + β k vᵀ",
        .transition = "A = (I − β k kᵀ) Diag(α) = Diag(α) − β k (α ⊙ k)ᵀ",
        .brief = "F Diag(α)",
        .spectrum = "real, in [−1, 1]: A is similar to √Diag(α) (I − β k kᵀ) √Diag(α).",
        .bound = "‖A‖ ≤ max α ≤ 1 for 0 ≤ β k·k ≤ 2, so products contract. A is not symmetric: "
                 "the key is written along k and read along α ⊙ k.",
        .caution = "Literal at the decayed state only (E18). The other order, Diag(α) outside, is "
                   "another recurrence (R08).",
        .kind = GRADIENT_DECAYED,
        .decay = DECAY_CHANNEL,
        .erase = ERASE_KEY,
        .n_h = 1,
        .beta_max = 2,
        .loss_at = explain_loss_regression,
        .own = explain_own_delta,
    },
    {
        .id = "R09",
        .name = "RWKV-7",
        .alias = "rwkv-7 goose",
        .families = "rwkv7 rwkv7_fla",
        .idea = "Fades every channel, erases along one key, writes along another.",
        .loss = "L(H) = ½ ‖Hᵀk − v‖² + ½ ‖√Diag(1−w) H‖²",
        .gradient = "∇L = k (Hᵀk − v)ᵀ + Diag(1−w) H",
        .update = "H ← (Diag(w) − (a ⊙ κ) κᵀ) H + k vᵀ",
        .transition = "A = Diag(w) − (a ⊙ κ) κᵀ",
        .brief = "Diag(w) − (a⊙κ) κᵀ",
        .spectrum = "real (A is similar to a symmetric matrix where a > 0), in [−1, 1] for w, a in "
                    "[0, 1] and a unit κ.",
        .bound = "Only single steps are bounded. ‖A‖ may exceed 1, and products of steps that are "
                 "each harmless can grow without limit (G15); the decay works in every direction, "
                 "where DeltaNet's works in one (G16).",
        .caution = "Formal: the update erases along κ and writes along k, so it is not a "
                   "gradient step on this loss, nor on any other (A is not symmetric). κ reads the "
                   "undecayed state, a ⊙ κ is written: swapped, single steps keep their "
                   "eigenvalues and windows do not (E16). The read-out has scale 1.",
        .kind = GRADIENT_FORMAL,
        .decay = DECAY_CHANNEL,
        .erase = ERASE_PAIR,
        .n_h = 1,
        .loss_at = explain_loss_kept,
        .own = explain_own_rwkv7,
        .special = explain_draw_rwkv7,
        .known = explain_known_rwkv7,
        .known_what = "spectral radius of a product of two steps that each have eigenvalues 1 and "
                      "3/4 (our reconstruction, which matches the published value 1.2303)",
        .known_want = 1.2302911524, // (27 + 3 sqrt 17) / 32
    },
    {
        .id = "R10",
        .name = "Comba",
        .alias = "",
        .families = "comba",
        .idea = "Reads along p before the decay, corrects along k after it.",
        .loss = "L(H) = β/2 ‖Hᵀk − v‖² + ½ ‖√(1−α) H‖²",
        .gradient = "∇L = β k (Hᵀk − v)ᵀ + (1−α) H",
        .update = "H ← (α I − β k pᵀ) H + β k vᵀ",
        .transition = "A = α I − β k pᵀ",
        .brief = "α I − β k pᵀ",
        .spectrum = "α, K−1 times, and α − β k·p.",
        .bound = "With p = k it is α − β k·k, in (−1, 1) for β in (0, 1): a strong write to a "
                 "faded state can mirror it, unlike α (1 − β k·k). With a free p nothing bounds "
                 "it: k·p < 0 grows.",
        .caution = "Formal as long as p and k differ. The layer that is in use takes p as the "
                   "normalised k times a number, which the norm cancels: there p = k up to the "
                   "norm's eps, and the gradient is literal at H after all. Its query is corrected "
                   "before its norm: q − D p.",
        .kind = GRADIENT_FORMAL,
        .decay = DECAY_HEAD,
        .erase = ERASE_PAIR,
        .n_h = 1,
        .beta_max = 1,
        .loss_at = explain_loss_kept,
        .own = explain_own_comba,
        .special = explain_draw_comba,
    },
    {
        .id = "R11",
        .name = "Longhorn",
        .alias = "implicit-delta-rule",
        .families = "",
        .idea = "Solves for the best state instead of stepping towards it.",
        .loss = "L(X) = ½ ‖X − H‖² + β/2 ‖Xᵀk − v‖², minimised over X",
        .gradient = "∇L = X − H + β k (Xᵀk − v)ᵀ = 0 at the new state",
        .update = "H ← (I − ε k kᵀ) H + ε k vᵀ,  ε = β / (1 + β k·k)",
        .transition = "A = I − ε k kᵀ",
        .brief = "I − ε k kᵀ",
        .spectrum = "1, K−1 times, and 1 / (1 + β k·k) along k.",
        .bound = "In (0, 1] for every β ≥ 0 and every length of k: the implicit step cannot "
                 "overshoot, so keys need no norm. It never mirrors, and clears only in the limit.",
        .caution =
            "Implicit: β weighs the new pair, ε is the rate that results, and ε stands in "
            "the write, too (E17). No model in the layouts read here uses it; it is the delta rule "
            "with β replaced by ε (core/step_kinds.h).",
        .kind = GRADIENT_IMPLICIT,
        .decay = DECAY_NONE,
        .erase = ERASE_KEY,
        .n_h = 1,
        .beta_max = 2,
        .loss_at = explain_loss_implicit,
        .own = explain_own_longhorn,
        .special = explain_draw_longhorn,
    },
    {
        .id = "R12",
        .name = "DeltaProduct",
        .alias = "delta-product",
        .families = "",
        .idea = "Several delta steps a token, each with a key, a value and a strength of its own.",
        .loss = "Lⱼ(X) = βⱼ/2 ‖Xᵀkⱼ − vⱼ‖², j = 1 ... n_h, one after the other",
        .gradient = "∇Lⱼ = βⱼ kⱼ (Xᵀkⱼ − vⱼ)ᵀ",
        .update = "n_h times: H ← (I − βⱼ kⱼ kⱼᵀ) H + βⱼ kⱼ vⱼᵀ",
        .transition = "A = F_n ... F₂ F₁,  Fⱼ = I − βⱼ kⱼ kⱼᵀ",
        .brief = "F_n ... F₂ F₁",
        .spectrum = "at least K − n_h ones; the others in the unit disc, complex pairs allowed. "
                    "rank(A − I) ≤ n_h.",
        .bound = "‖Fⱼ‖ ≤ 1 for 0 ≤ βⱼ k·k ≤ 2, so ‖A‖ ≤ 1 and products contract. Two mirrors "
                 "make a rotation: one token can turn the state (G02), which n_h = 1 cannot.",
        .caution = "Literal, micro-step by micro-step: n_h steps of gradient descent on n_h "
                   "pairs. This is model type gated_deltaproduct without its forget gate.",
        .kind = GRADIENT_STEPS,
        .decay = DECAY_NONE,
        .erase = ERASE_KEY,
        .n_h = 2,
        .beta_max = 2,
        .loss_at = explain_loss_regression,
        .own = explain_own_delta,
        .known = explain_known_rotation,
        .known_what = "degrees that two mirrors (β = 2) with keys 60 degrees apart turn by",
        .known_want = 120,
    },
    {
        .id = "R13",
        .name = "Gated DeltaProduct",
        .alias = "gated-delta-product gdp",
        .families = "gated_deltaproduct gated_delta_product",
        .idea = "Fades the whole state once a token, then takes several delta steps.",
        .loss = "Lⱼ(X) = βⱼ/2 ‖Xᵀkⱼ − vⱼ‖², j = 1 ... n_h, from X = α H",
        .gradient = "∇Lⱼ = βⱼ kⱼ (Xᵀkⱼ − vⱼ)ᵀ",
        .update = "X ← α H;  n_h times: X ← (I − βⱼ kⱼ kⱼᵀ) X + βⱼ kⱼ vⱼᵀ;  H ← X",
        .transition = "A = α F_n ... F₂ F₁,  Fⱼ = I − βⱼ kⱼ kⱼᵀ",
        .brief = "α F_n ... F₂ F₁",
        .spectrum = "at least K − n_h times α; the others in the disc of radius α, complex pairs "
                    "allowed. rank(A − α I) ≤ n_h.",
        .bound = "‖A‖ ≤ α ≤ 1. The gate counts once a token, never once a micro-step; n_h = 1 is "
                 "Gated DeltaNet.",
        .caution = "Literal from the decayed state, micro-step by micro-step. Without its forget "
                   "gate the model is plain DeltaProduct.",
        .kind = GRADIENT_STEPS,
        .decay = DECAY_HEAD,
        .erase = ERASE_KEY,
        .n_h = 2,
        .beta_max = 2,
        .loss_at = explain_loss_regression,
        .own = explain_own_delta,
    },
    {
        .id = "1A",
        .name = "Generic DPLR",
        .alias = "dplr diagonal-plus-low-rank",
        .families = "",
        .idea = "Diagonal plus rank one: the frame that holds all rows with one key a token.",
        .loss = "none in general",
        .gradient = "none: H − ∇L(H) needs a symmetric A, and Diag(w) + a bᵀ is not",
        .update = "H ← (Diag(w) + a bᵀ) H + k vᵀ",
        .transition = "A = Diag(w) + a bᵀ",
        .brief = "Diag(w) + a bᵀ",
        .spectrum = "anything: with w = c 1 it is c, K−1 times, and c + a·b.",
        .bound = "Nothing, unless a and b are tied: a = −β k, b = α ⊙ k is KDA, b = α k Gated "
                 "DeltaNet, a = −(a ⊙ κ), b = κ RWKV-7, a = 0 GLA.",
        .caution = "b reads the undecayed state; a is written. FLA's operator names them the other "
                   "way round. No model in the layouts read here uses it bare (core/step_kinds.h).",
        .kind = GRADIENT_NONE,
        .decay = DECAY_CHANNEL,
        .erase = ERASE_PAIR,
        .n_h = 1,
        .own = explain_own_dplr,
        .special = explain_draw_dplr,
    },
};
const size_t n_recurrences = sizeof recurrences / sizeof *recurrences;

// model_types that have a recurrence, but none over a matrix state.
static const struct {
    const char *name, *why;
} others[] = {
    {"rwkv", "RWKV-4 keeps a few numbers for each channel, no matrix: there is no transition "
             "matrix to explain"},
    {"rwkv4", "RWKV-4 keeps a few numbers for each channel, no matrix: there is no transition "
              "matrix to explain"},
    {"mamba", "Mamba (the first) keeps a diagonal recurrence of its own for each channel, no "
              "state that heads share; mamba2 is the one with a matrix state"},
};

const char *explain_why_not(const char *word) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, word) == 0)
            return others[i].why;
    return NULL;
}

const char *explain_gradient_word(gradient_kind k) {
    static const char *const word[] = {"literal",  "decayed", "each step",
                                       "implicit", "formal",  "none"};
    return word[k];
}

// Lower case letters and digits of s (n bytes): "RWKV-7" and "rwkv7" are the same.
static void fold(const char *s, size_t n, char *out, size_t size) {
    size_t m = 0;
    for (size_t i = 0; i < n && m + 1 < size; i++)
        if (isalnum((unsigned char)s[i]))
            out[m++] = (char)tolower((unsigned char)s[i]);
    out[m] = 0;
}

typedef struct search {
    char want[64];
    int best;
    bool found;
    char nearest[64];
} search;

static void try_word(search *s, const char *word, size_t n) {
    char folded[64];
    fold(word, n, folded, sizeof folded);
    s->found |= folded[0] && strcmp(folded, s->want) == 0;
    int d = text_distance(folded, s->want, s->best);
    if (folded[0] && d < s->best) {
        s->best = d;
        memcpy(s->nearest, word, n < sizeof s->nearest - 1 ? n : sizeof s->nearest - 1);
        s->nearest[n < sizeof s->nearest - 1 ? n : sizeof s->nearest - 1] = 0;
    }
}

static void try_words(search *s, const char *words) {
    while (*words) {
        size_t n = strcspn(words, " ");
        try_word(s, words, n);
        words += n + (words[n] == ' ');
    }
}

const recurrence *explain_find(const char *word, const char **nearest) {
    static _Thread_local search s;
    s = (search){0};
    fold(word, strlen(word), s.want, sizeof s.want);
    s.best = text_near(s.want) + 1;
    for (size_t i = 0; i < n_recurrences; i++) {
        const recurrence *r = &recurrences[i];
        try_words(&s, r->families);
        try_word(&s, r->name, strlen(r->name));
        try_words(&s, r->alias);
        try_word(&s, r->id, strlen(r->id));
        if (s.found)
            return r;
    }
    if (nearest)
        *nearest = s.nearest[0] ? s.nearest : NULL;
    return NULL;
}
