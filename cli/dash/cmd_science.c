// Commands that make the worker do something else: windows, switched-off heads, documents, models.
#include "cli/dash/cmd.h"
#include "cli/dash/settings.h"
#include "cli/head_list.h"
#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool window(dash *d, const scene *x, const char *rest, err *e) {
    (void)x;
    if (strcmp(rest, "half") == 0)
        d->look.W = d->look.W > 1 ? d->look.W / 2 : 1;
    else if (strcmp(rest, "double") == 0)
        d->look.W = d->look.W * 2 > 512 ? 512 : d->look.W * 2;
    else
        return settings_set(d, "window", rest, e);
    dash_say(d, ' ', "window of the spectra: %lld token%s", (long long)d->look.W,
             d->look.W == 1 ? "" : "s");
    return true;
}

// The set of switched-off heads has changed.
static void regenerate(dash *d) {
    d->want.generation = d->want.n_off ? d->want.next_generation++ : 0;
    d->want.cancelled = false;
}

static bool ablate(dash *d, const scene *x, const char *rest, err *e) {
    const card *c = dash_card(d);
    head_ref list[HEAD_LIST_MOST];
    int n = 1;
    char name[512];
    if (!c || c->n_heads == 0)
        return err_set(e, ERR_USAGE, "ablate: this model has no heads with matrix states");
    if (x->T == 1)
        return err_set(e, ERR_USAGE, "ablate: one token has no loss to compare");
    if (strcmp(rest, "all") == 0) {
        d->want.sweep = true;
        d->look.metric = METRIC_ABL;
        dash_say(d, ' ', "trying every head of %s, one pass each", c->name);
        return true;
    }
    if (!*rest)
        list[0] = (head_ref){d->layer, d->head};
    else if (!head_list_read(rest, list, &n, e) || !fwd_check_heads(c->x.m, list, n, e))
        return false;
    if (*rest) { // exactly these
        memcpy(d->want.off, list, (size_t)n * sizeof *list);
        d->want.n_off = n;
    } else {
        int at = 0;
        while (at < d->want.n_off &&
               (d->want.off[at].layer != d->layer || d->want.off[at].head != d->head))
            at++;
        if (at < d->want.n_off)
            d->want.off[at] = d->want.off[--d->want.n_off];
        else if (d->want.n_off == OFF_MOST)
            return err_set(e, ERR_USAGE, "ablate: %d heads are off already", OFF_MOST);
        else
            d->want.off[d->want.n_off++] = list[0];
    }
    regenerate(d);
    if (d->want.n_off)
        dash_say(d, ' ', "%s off: reading again",
                 head_list_name(d->want.off, d->want.n_off, name, sizeof name));
    else
        dash_say(d, ' ', "all heads on");
    return true;
}

static bool restore(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->want.n_off = 0;
    d->want.sweep = false;
    regenerate(d);
    dash_say(d, ' ', "all heads on");
    return true;
}

static bool open_model(dash *d, const char *path, err *e) {
    if (d->in.n_models == MODELS_MOST)
        return err_set(e, ERR_USAGE, "open: there are %d models already", MODELS_MOST);
    card *c = card_open(path, d->o ? d->o->train_length : 0, e);
    if (!c)
        return false;
    if (!c->x.m) {
        err_set(e, ERR_UNSUPPORTED, "%s: %s", text_show(path),
                c->x.n_findings ? c->x.finding[0].text : "cannot be run");
        card_free(c);
        return false;
    }
    d->in.model[d->in.n_models++] = c;
    dash_say(d, ' ', "%c: %s", 'a' + d->in.n_models - 1, c->name);
    return true;
}

static bool open_file(dash *d, const scene *x, const char *rest, err *e) {
    struct stat st;
    (void)x;
    if (rest[0] == 'b' && (rest[1] == ' ' || !rest[1])) {
        const char *path = rest + 1;
        while (*path == ' ')
            path++;
        if (*path)
            return open_model(d, path, e);
        prompt_open(&d->prompt, ':', "open b ");
        return true;
    }
    if (!*rest)
        return err_set(e, ERR_USAGE, "open: expected a document, or b and a model");
    if (stat(rest, &st) != 0)
        return err_set(e, ERR_MISSING, "%s: %s", text_show(rest), err_system(errno));
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_USAGE, "%s is a folder; a second model is opened by open b",
                       text_show(rest));
    if (d->in.n_documents_before ==
        (int)(sizeof d->in.documents_before / sizeof *d->in.documents_before))
        return err_set(e, ERR_USAGE, "open: enough documents for one sitting; start again");
    char *path = mem_strdup(rest, e);
    if (!path)
        return false;
    if (d->in.document)
        d->in.documents_before[d->in.n_documents_before++] = d->in.document;
    d->in.document = path;
    d->T = 0;
    d->t = d->t0 = d->t1 = 0;
    d->follow = true;
    d->search.text[0] = 0;
    d->search.of = NULL;
    d->want.cancelled = false;
    d->scroll = 0;
    d->overlay = OVERLAY_NONE;
    return true;
}

static bool reload(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    for (int i = 0; i < d->in.n_models; i++) {
        card *c = card_open(d->in.model[i]->path, d->o ? d->o->train_length : 0, e);
        if (!c)
            return false;
        card_free(
            c); // the sizes on screen stay; a model that has become another one is opened anew
    }
    d->want.reload++;
    d->search.of = NULL;
    d->want.cancelled = false;
    dash_say(d, ' ', "reading model and document again");
    return true;
}

static bool bench(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    const card *c = dash_card(d);
    if (!c || !c->x.m)
        return err_set(e, ERR_USAGE, "bench: this model cannot be run");
    d->want.kernels = d->want.next_kernels++;
    d->want.kernels_slot = d->in.slot;
    d->want.cancelled = false;
    d->open |= 1u << 9;
    dash_say(d, ' ', "measuring the kernels of %s%s", c->name,
             d->in.document && x->read < x->T ? " after the pass" : "");
    return true;
}

static bool recompute(dash *d, const scene *x, const char *rest, err *e) {
    if (d->focus == 9 && !d->want.cancelled && x->s->fatal.code == ERR_NONE)
        return bench(d, x, rest, e);
    if (d->want.cancelled) {
        d->want.cancelled = false;
        dash_say(d, ' ', "the pass goes on");
    } else if (x->s->fatal.code != ERR_NONE) {
        d->want.reload++;
        dash_say(d, ' ', "trying again");
    } else {
        dash_say(d, ' ', "nothing to take up: everything asked for is computed or on its way");
    }
    return true;
}

static bool pause_work(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->want.paused = !d->want.paused;
    dash_say(d, ' ', d->want.paused ? "paused; Z goes on" : "going on");
    return true;
}

static bool cancel(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    bool again = x->live->on && x->live->now - d->want.cancelled_at < 2;
    if (again || !d->busy || (d->want.cancelled && !d->want.sweep && !d->want.kernels)) {
        d->quit = true;
        d->exit_code = 130;
        return true;
    }
    // A finished pass stays finished: only the kernels are stopped then.
    d->want.cancelled = !d->want.kernels || (d->in.document && x->read < x->T);
    d->want.sweep = false;
    d->want.kernels = 0;
    d->want.cancelled_at = x->live->on ? x->live->now : -10;
    dash_say(d, '!', "stopped, what is done is kept; R goes on, ^C once more leaves");
    return true;
}

const cmd cmd_sciences[] = {
    {"window", "N|half|double", COMPLETE_NONE, window},
    {"ablate", "L.H,...|all", COMPLETE_HEAD, ablate},
    {"restore", "", COMPLETE_NONE, restore},
    {"open", "FILE|b MODEL", COMPLETE_FILE, open_file},
    {"reload", "", COMPLETE_NONE, reload},
    {"bench", "", COMPLETE_NONE, bench},
    {"recompute", "", COMPLETE_NONE, recompute},
    {"pause", "", COMPLETE_NONE, pause_work},
    {"cancel", "", COMPLETE_NONE, cancel},
};
const size_t n_cmd_sciences = sizeof cmd_sciences / sizeof *cmd_sciences;
