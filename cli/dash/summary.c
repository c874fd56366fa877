#include "cli/dash/summary.h"

#include "analyses/loss.h"
#include "cli/dash/losses.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "core/order.h"
#include "core/text.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool compute(app *a, err *e) {
    progress bar;
    progress_begin(&bar, "view", a->d.in.n_models, STDERR_FILENO);
    int phase = -1;
    bool ok = true;
    while (ok) {
        app_pump(a);
        app_ask(a);
        if (app_fatal(a)->code != ERR_NONE) {
            ok = err_set(e, app_fatal(a)->code, "%s", app_fatal(a)->text);
            break;
        }
        if (a->s.served == a->seq)
            break;
        for (int i = 0; i < a->d.in.n_models; i++) {
            const run *r = a->s.base[i];
            if (!r || run_read(r) >= r->T)
                continue;
            if (phase != i)
                progress_phase(&bar, "tokens");
            phase = i;
            ok = progress_tick(&bar, run_read(r), r->T);
            break;
        }
        if (!ok || signals_caught()) {
            ok = err_set(e, ERR_CANCELLED, "stopped");
            break;
        }
        struct pollfd p = {worker_fd(a->w), POLLIN, 0};
        poll(&p, 1, 200);
    }
    progress_end(&bar);
    return ok;
}

// Least, median and largest effective rank of a layer's heads at the end; the number of them.
static int layer_ranks(const run *r, int layer, double out[3]) {
    double v[1024];
    int n = 0;
    for (int h = r->first[layer]; h < r->first[layer + 1] && n < 1024; h++) {
        int64_t at;
        double y = run_rank(r, h, Q_ERANK, r->T - 1, &at);
        if (at >= 0 && isfinite(y))
            v[n++] = y;
    }
    if (n) {
        out[1] = order_median(v, (size_t)n);
        out[0] = v[0];
        out[2] = v[n - 1];
    }
    return n;
}

static bool losses_of(const app *a, int i, loss_result *out, err *e) {
    const run *r = a->s.shown[i];
    if (!loss_init(out, a->d.in.model[i]->name, losses_document(r->of), 1, r->T - 1,
                   a->d.in.model[i]->train_length, e))
        return false;
    memcpy(out->loss, r->loss + 1, (size_t)(r->T - 1) * sizeof *out->loss);
    return loss_summarise(out, 0, 0, e);
}

static void print_model(const app *a, const output *out, int i) {
    const card *c = a->d.in.model[i];
    output_print(out, "%s: %s  %s", c->name, c->line[0], c->line[1]);
    if (c->train_length > 0)
        output_print(out, "  trained at %lld tokens", (long long)c->train_length);
    output_print(out, "\n");
}

static bool print_reading(const app *a, const output *out, int i, err *e) {
    const run *r = a->s.shown[i];
    loss_result v = {0};
    double q[3];
    if (r->T >= 2) {
        if (!losses_of(a, i, &v, e))
            return false;
        output_print(out, "  %s: %lld tokens, mean loss %.4f nats/token, perplexity %.3f\n",
                     text_show(r->of->d.name), (long long)r->T, v.mean, v.total_ppl);
        for (int64_t k = 0; k < v.n_stretches; k++)
            output_print(out, "    positions %lld-%lld: %.4f\n", (long long)v.stretch[k].from,
                         (long long)v.stretch[k].to, v.stretch[k].mean);
        loss_free(&v);
    }
    for (int L = 0; L < r->n_layers; L++)
        if (layer_ranks(r, L, q))
            output_print(
                out, "    L%d effective rank at the end: %.1f to %.1f, median %.1f of %d\n", L,
                q[0], q[2], q[1],
                r->head[r->first[L]].s.K < r->head[r->first[L]].s.V ? r->head[r->first[L]].s.K
                                                                    : r->head[r->first[L]].s.V);
    return true;
}

static json_t *reading_json(const app *a, int i, err *e) {
    const run *r = a->s.shown[i];
    loss_result v = {0};
    double q[3];
    json_t *j = json_object(), *ranks = json_array();
    json_object_set_new(j, "model", output_json_text(a->d.in.model[i]->name));
    json_object_set_new(j, "document", output_json_text(r->of->d.name));
    json_object_set_new(j, "tokens", json_integer(r->T));
    json_object_set_new(j, "sha256", json_string(r->of->d.sha256));
    if (r->T >= 2 && losses_of(a, i, &v, e)) {
        json_object_set_new(j, "mean_loss", output_json_real(v.mean));
        json_object_set_new(j, "total_ppl", output_json_real(v.total_ppl));
        loss_free(&v);
    }
    for (int L = 0; L < r->n_layers; L++)
        if (layer_ranks(r, L, q))
            json_array_append_new(ranks, json_pack("{s:i,s:f,s:f,s:f}", "layer", L, "least", q[0],
                                                   "median", q[1], "largest", q[2]));
    json_object_set_new(j, "erank_at_end", ranks);
    return j;
}

bool summary_run(app *a, err *e) {
    // What nobody will see is not computed.
    a->d.open = 1u << 3;
    a->d.focus = 3;
    a->d.zoom = true;
    if (!a->d.in.document)
        a->d.overlay = OVERLAY_HELP; // no weight statistics either
    a->d.t1 = 0;
    output *out = output_open(a->o, e);
    bool ok = out && (!a->d.in.document || compute(a, e));
    json_t *results = json_array();
    for (int i = 0; ok && i < a->d.in.n_models; i++) {
        print_model(a, out, i);
        if (a->d.in.document && a->s.shown[i]) {
            ok = print_reading(a, out, i, e);
            json_t *j = reading_json(a, i, e);
            json_array_append_new(results, j);
        }
    }
    if (ok && !a->d.in.document)
        output_print(out, "deltop inspect %s tells more; with a document the dashboard reads it\n",
                     text_show(a->d.in.model[0]->path));
    if (ok) {
        json_t *v = output_head(out);
        if (v)
            json_object_set(v, "results", results);
        ok = output_finish(out, "view.json", v, e);
    }
    json_decref(results);
    output_free(out);
    return ok;
}
