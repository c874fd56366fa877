// deltop parity - is the program right on this model? Compares it with a reference dump.
#include "analyses/parity.h"

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/session.h"
#include "core/file.h"
#include "core/text.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct parity_options {
    const char *reference; // NULL: the model's own folder
} parity_options;

static const option_spec own[] = {
    {"reference", OPT_TEXT, offsetof(parity_options, reference), .value = "DIR",
     .help = "folder with input_ids.npy, nll.npy ... (default: the model's own folder)"},
};

static json_t *row_json(const parity_row *r) {
    json_t *j = json_object();
    int bad = json_object_set_new(j, "what", json_string(r->what));
    bad |= json_object_set_new(j, "layer", r->layer < 0 ? json_null() : json_integer(r->layer));
    bad |= json_object_set_new(j, "numbers", json_integer(r->count));
    bad |= json_object_set_new(j, "error", output_json_real(r->error));
    bad |= json_object_set_new(j, "tolerance", output_json_real(r->tolerance));
    bad |= json_object_set_new(j, "measure", json_string(r->how));
    bad |= json_object_set_new(j, "pass", json_boolean(r->pass));
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static json_t *model_json(const output *out, size_t i, const parity *p) {
    json_t *j = json_object(), *rows = json_array();
    int bad = json_object_set_new(j, "model", output_json_text(output_model(out, i)));
    bad |= json_object_set_new(j, "tokens", json_integer(p->tokens));
    bad |= json_object_set_new(j, "pass", json_boolean(p->pass));
    for (size_t k = 0; k < p->n; k++)
        bad |= json_array_append_new(rows, row_json(&p->row[k]));
    bad |= json_object_set_new(j, "compared", rows);
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static void print(const output *out, size_t i, const parity *p) {
    output_print(out, "%s: %s over %lld tokens\n", output_model(out, i), p->pass ? "pass" : "FAIL",
                 (long long)p->tokens);
    output_print(out, "  %-20s %10s %10s %10s  %s\n", "compared", "numbers", "error", "allowed",
                 "measure");
    for (size_t k = 0; k < p->n; k++) {
        const parity_row *r = &p->row[k];
        output_print(out, "  %-20s %10lld %10.2e %10.1e  %s%s\n", r->what, (long long)r->count,
                     r->error, r->tolerance, r->how, r->pass ? "" : "  FAIL");
    }
}

static int run(const options *o, err *e) {
    const parity_options *own_options = o->own;
    session s;
    bool ok = session_open(&s, o, e), pass = true;
    output *out = ok ? output_open(o, e) : NULL;
    json_t *results = json_array();
    ok = out != NULL;
    if (ok)
        output_ran_on(out, s.be);
    for (size_t i = 0; ok && i < o->n_models; i++) {
        const char *folder = own_options->reference ? own_options->reference : o->model[i];
        if (!file_exists(folder)) {
            ok = err_set(e, ERR_MISSING, "option --reference: %s: no such folder",
                         text_show(folder));
            break;
        }
        char *beside = file_is_folder(folder) ? NULL : file_folder(folder, e);
        parity p;
        progress bar;
        progress_begin(&bar, "parity", 1, STDERR_FILENO);
        progress_phase(&bar, "tokens");
        ok = session_model(&s, i, e) && parity_run(s.m, beside ? beside : folder, session_block(&s),
                                                   progress_tick, &bar, &p, e);
        progress_end(&bar);
        free(beside);
        if (!ok) {
            if (e->code == ERR_NUMERIC)
                err_prefix(e, "%s", text_show(o->model[i]));
            break;
        }
        pass &= p.pass;
        print(out, i, &p);
        if (json_array_append_new(results, model_json(out, i, &p)) != 0)
            ok = err_set(e, ERR_NOMEM, "out of memory: the JSON result");
        parity_free(&p);
    }
    json_t *v = ok ? output_head(out) : NULL;
    if (v && (json_object_set_new(v, "pass", json_boolean(pass)) != 0 ||
              json_object_set(v, "results", results) != 0)) {
        json_decref(v);
        v = NULL;
    }
    ok = ok && output_finish(out, "parity.json", v, e);
    json_decref(results);
    output_free(out);
    session_close(&s);
    return !ok ? EXIT_FAILED : pass ? EXIT_DONE : EXIT_CHECK;
}

const command command_parity = {
    .name = "parity",
    .summary = "compares a model with a reference dump",
    .usage = "MODEL...",
    .details = "The dump is a folder of .npy files: input_ids and nll, and optionally logits_last, "
               "hidden_last and per layer state_lN, erank_lN, erank_micro_lN, beta_lN, loggate_lN, "
               "eig_lN with eig_ends, eig_windows, eig_cond_lN, norm2_lN, logabsdet_lN. What is "
               "there is compared, and refused where the model has no such layer; exit code 4 when "
               "anything is further off than the precision "
               "allows (f64: 1e-9, f32: 3e-4 for delta rules, else 1e-4; eigenvalues against their "
               "condition).",
    .example = "deltop parity --precision f64 tests/cases/golden/gdn-hybrid-swa",
    .files = "parity.json",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_BLOCK | TAKES_THREADS | TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(parity_options),
    .run = run,
};
