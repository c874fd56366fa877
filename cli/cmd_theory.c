// deltop theory - checkpoints that do what the theorems say.
#include "analyses/theory/theory.h"

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/say.h"
#include "cli/wrap.h"
#include "core/file.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct theory_options {
    bool list, cost, explain;
    int64_t degree;
} theory_options;

static const theory_options defaults = {.degree = 6};

static const option_spec own[] = {
    {"list", OPT_FLAG, offsetof(theory_options, list),
     .help = "all constructions, and those that FLA's layout cannot hold, with the reason"},
    {"explain", OPT_FLAG, offsetof(theory_options, explain),
     .help = "how each NAME is built, instead of building it"},
    {"cost", OPT_FLAG, offsetof(theory_options, cost),
     .help = "exact sizes of the look-up tables of Theorem 3, for every n_h"},
    {"degree", OPT_INT, offsetof(theory_options, degree), .lo = 2, .hi = 12,
     .help = "with --cost: the largest n of S_n (default 6)"},
};

static bool add(json_t *list, json_t *item, err *e) {
    return json_array_append_new(list, item) == 0 ||
           err_set(e, ERR_NOMEM, "out of memory: the JSON result");
}

// ---- --list, --explain, --cost ----------------------------------------------------------------------

static json_t *row_json(const theory *t) {
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s?}", "name", t->name, "ids", t->ids, "what",
                     t->what, "how", t->how, "can_be_written", t->why_not == NULL, "why_not",
                     t->why_not);
}

static void print_name(const output *out, const theory *t) {
    char range[48] = "";
    if (t->hi)
        snprintf(range, sizeof range, " (n = %d..%d)", t->lo, t->hi);
    output_print(out, "%s%s  [%s]\n", t->name, range, t->ids);
}

static bool list(const output *out, json_t *results, err *e) {
    for (int written = 1; written >= 0; written--) {
        output_print(out, written ? "Constructions (deltop theory NAME --out DIR):\n\n"
                                  : "\nNot in FLA's layout:\n\n");
        for (size_t i = 0; i < n_theories; i++) {
            const theory *t = &theories[i];
            if ((t->why_not == NULL) != (written == 1))
                continue;
            int at = 2 + 17;
            output_print(out, "  %-16s ", t->name);
            wrap_print(out, t->what, at, at);
            if (t->why_not) {
                output_print(out, "%*s", at, "");
                wrap_print(out, t->why_not, at, at);
            }
            if (!add(results, row_json(t), e))
                return false;
        }
    }
    output_print(out, "\n  FILE.json        ");
    wrap_print(
        out,
        "any permutation-reset automaton: {\"automaton\": name, \"tokens\": [..], \"states\": "
        "[..], \"start\": state, \"next\": {state: {token: state}}}",
        19, 19);
    output_print(out, "\nn in a name is a number: s4, d5, mod3-reset.\n");
    return true;
}

static void print_paragraphs(const output *out, const char *s) {
    while (*s) {
        char part[1200];
        size_t n = strcspn(s, "\n");
        snprintf(part, sizeof part, "%.*s", (int)n, s);
        output_print(out, "  ");
        wrap_print(out, part, 2, 2);
        s += n + (s[n] == '\n');
    }
}

static bool explain(const output *out, const char *name, json_t *results, err *e) {
    const theory *t = NULL;
    int n = 0;
    for (size_t i = 0; i < n_theories && !t; i++) // "s<n>" itself will do
        if (strcmp(theories[i].name, name) == 0)
            t = &theories[i];
    if (!t && !(t = theory_find(name, &n, e)))
        return false;
    print_name(out, t);
    print_paragraphs(out, t->what);
    print_paragraphs(out, t->how);
    if (t->why_not) {
        output_print(out, "  Cannot be written in FLA's layout:\n");
        print_paragraphs(out, t->why_not);
    }
    return add(results, row_json(t), e);
}

static bool cost(const output *out, int degree, json_t *results, err *e) {
    static char digits[THEORY_COST_DIGITS];
    output_print(out, "Look-up tables of Theorem 3: S_n with n_h reflections a token in blocks of\n"
                      "m = ceil((n-1) / n_h) tokens; 2 m (n!)^(2 m) entries (entries, not "
                      "parameters)\n\n");
    output_print(out, "  %-4s %4s %7s %4s  %s\n", "S_n", "n_h", "layers", "m", "entries");
    for (int n = 2; n <= degree; n++)
        for (int n_h = 1; n_h < n; n_h++) {
            int m = theory_block(n, n_h), layers = n_h == n - 1 ? 1 : n_h > 1 ? 3 : 4;
            if (!theory_cost(n, n_h, digits, sizeof digits))
                return err_set(e, ERR_UNSUPPORTED,
                               "option --degree: the number for S%d has more "
                               "than %d digits",
                               n, THEORY_COST_DIGITS);
            if (layers == 1)
                output_print(out, "  S%-3d %4d %7d %4d  none: one layer of swaps (s%d)\n", n, n_h,
                             layers, m, n);
            else
                output_print(out, "  S%-3d %4d %7d %4d  %s\n", n, n_h, layers, m, digits);
            if (!add(results,
                     json_pack("{s:i, s:i, s:i, s:i, s:s?}", "n", n, "n_h", n_h, "layers", layers,
                               "block", m, "entries", layers == 1 ? NULL : digits),
                     e))
                return false;
        }
    return true;
}

// ---- building ---------------------------------------------------------------------------------------

static void describe(const output *out, const char *name, const theory_built *b) {
    const product_sizes *s = &b->m->s;
    output_print(out, "%s: %s, %d inputs, %d states\n", text_show(name), text_show(b->task->name),
                 b->task->n_inputs, b->task->n_states);
    output_print(out,
                 "  gated_deltaproduct, %d layer%s, %d head%s of K = %d, V = %d, n_h = %d%s; width "
                 "%d, %lld parameters\n",
                 s->n_layers, s->n_layers > 1 ? "s" : "", s->H, s->H > 1 ? "s" : "", s->K, s->V,
                 s->n_h, s->forget ? ", forget gate" : "", s->D,
                 (long long)product_parameters(b->m));
    output_print(out, "  %d prefix token%s; margin between the two nearest answers %.3g (cosine)\n",
                 b->task->n_prefix, b->task->n_prefix > 1 ? "s" : "", b->margin);
}

static json_t *built_json(const char *name, const theory_built *b) {
    const product_sizes *s = &b->m->s;
    return json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:I, s:f, s:i}",
                     "name", output_json_text(name), "task", b->task->name, "inputs",
                     b->task->n_inputs, "states", b->task->n_states, "layers", s->n_layers, "heads",
                     s->H, "K", s->K, "V", s->V, "n_h", s->n_h, "hidden_size", s->D, "forget_gate",
                     (int)s->forget, "parameters", (json_int_t)product_parameters(b->m), "margin",
                     b->margin, "prefix_tokens", b->task->n_prefix);
}

// "s4" of s4, "door" of rules/door.json: the folder's name, and what group.json says.
static const char *short_name(const char *name, char *buf, size_t size) {
    file_base(name, buf, size);
    if (file_ends_with(buf, ".json"))
        buf[strlen(buf) - strlen(".json")] = 0;
    return buf;
}

static bool all_differ(const options *o, err *e) {
    char a[256], b[256];
    for (size_t i = 0; i < o->n_operands; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(short_name(o->operand[i], a, sizeof a),
                       short_name(o->operand[k], b, sizeof b)) == 0)
                return err_set(e, ERR_USAGE, "theory: two of the names would be written to %s/%s",
                               text_show(o->out), a);
    return true;
}

static bool write(output *out, const options *o, const char *name, const theory_built *b, err *e) {
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json", "sample.npy"};
    char base[256];
    short_name(name, base, sizeof base);
    char *folder = o->n_operands > 1 ? file_join(o->out, base, e) : strdup(o->out);
    if (!folder)
        return err_set(e, ERR_NOMEM, "out of memory: a path");
    bool ok = output_make_folder(folder, e) && theory_write(b, base, folder, e);
    for (int i = 0; ok && i < 6; i++) {
        char *path = file_join(folder, i < 5 ? files[i] : task_file_name(b->task), e);
        ok = path && output_wrote(out, path, e);
        free(path);
    }
    free(folder);
    return ok;
}

static bool one(output *out, const options *o, const char *name, json_t *results, err *e) {
    theory_built b;
    if (!theory_build(name, &b, e))
        return false;
    describe(out, name, &b);
    bool ok = add(results, built_json(name, &b), e) &&
              (!output_wants_files(out) || write(out, o, name, &b, e));
    theory_built_free(&b);
    return ok;
}

static int run(const options *o, err *e) {
    const theory_options *own_options = o->own;
    int asked = own_options->list + own_options->cost + (o->n_operands > 0);
    if (asked != 1 || (own_options->explain && o->n_operands == 0)) {
        err_set(e, ERR_USAGE,
                asked > 1 ? "theory: --list, --cost and a NAME exclude each other"
                          : "theory: name a construction, or ask for --list or --cost");
        return EXIT_USAGE;
    }
    if (o->out && !own_options->explain && !all_differ(o, e))
        return EXIT_USAGE;
    output *out = output_open(o, e);
    json_t *results = json_array();
    bool ok = out != NULL;
    if (ok && own_options->list)
        ok = list(out, results, e);
    if (ok && own_options->cost)
        ok = cost(out, (int)own_options->degree, results, e);
    for (size_t i = 0; ok && i < o->n_operands; i++) {
        if (i > 0)
            output_print(out, "\n");
        ok = own_options->explain ? explain(out, o->operand[i], results, e)
                                  : one(out, o, o->operand[i], results, e);
    }
    json_t *v = ok ? output_head(out) : NULL;
    if (v && json_object_set(v, "theories", results) != 0) {
        json_decref(v);
        v = NULL;
    }
    ok = ok && output_finish(out, "theory.json", v, e);
    json_decref(results);
    output_free(out);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

// Names that can be written; of a family with a number in its name the first ones.
static bool offers(size_t i, char *word, size_t size) {
    enum { OF_A_FAMILY = 6 };
    for (size_t k = 0; k < n_theories; k++) {
        const theory *t = &theories[k];
        size_t many = t->why_not ? 0 : t->hi ? (size_t)(t->hi - t->lo + 1) : 1;
        many = many < OF_A_FAMILY ? many : OF_A_FAMILY;
        if (i < many) {
            const char *open = strchr(t->name, '<');
            if (open)
                snprintf(word, size, "%.*s%d%s", (int)(open - t->name), t->name, t->lo + (int)i,
                         strchr(open, '>') + 1);
            else
                snprintf(word, size, "%s", t->name);
            return true;
        }
        i -= many;
    }
    return false;
}

const command command_theory = {
    .name = "theory",
    .summary = "writes checkpoints that do what theorems say",
    .usage = "NAME... | FILE.json... | --list | --cost",
    .details =
        "A NAME is a construction, such as s4 (the group S4 by swaps), a5-rotations, d5 (a "
        "dihedral "
        "group in two layers), parity or mod3-reset; a FILE.json is a permutation-reset automaton. "
        "With --out the checkpoint is written in flash-linear-attention's layout (config, "
        "safetensors, tokenizer, group.json or automaton.json with the word problem that it "
        "solves, and sample.npy, a word to read): DIR itself for one NAME, DIR/NAME for several. "
        "Without --out only its sizes are "
        "told.\n"
        "deltop words runs them; erank, spectrum and loss read them like any model. They are exact "
        "in float32 and float64, not in bfloat16, which rounds the keys.",
    .example = "deltop theory --list\n"
               "deltop theory s4 --out s4\n"
               "deltop theory --explain d5",
    .files = "theory.json and the checkpoint: config, safetensors, tokenizer, group.json or "
             "automaton.json, and sample.npy (a random word of 4096 tokens)",
    .words = true,
    .offers = offers,
    .takes = TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(theory_options),
    .own_defaults = &defaults,
    .run = run,
};
