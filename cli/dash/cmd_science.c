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
        d->W = d->W > 1 ? d->W / 2 : 1;
    else if (strcmp(rest, "double") == 0)
        d->W = d->W * 2 > 512 ? 512 : d->W * 2;
    else
        return settings_set(d, "window", rest, e);
    dash_say(d, ' ', "window of the spectra: %lld token%s", (long long)d->W, d->W == 1 ? "" : "s");
    return true;
}

// The set of switched-off heads has changed.
static void regenerate(dash *d) {
    d->generation = d->n_off ? d->next_generation++ : 0;
    d->cancelled = false;
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
        d->sweep = true;
        d->metric = METRIC_ABL;
        dash_say(d, ' ', "trying every head of %s, one pass each", c->name);
        return true;
    }
    if (!*rest)
        list[0] = (head_ref){d->layer, d->head};
    else if (!head_list_read(rest, list, &n, e) || !fwd_check_heads(c->x.m, list, n, e))
        return false;
    if (*rest) { // exactly these
        memcpy(d->off, list, (size_t)n * sizeof *list);
        d->n_off = n;
    } else {
        int at = 0;
        while (at < d->n_off && (d->off[at].layer != d->layer || d->off[at].head != d->head))
            at++;
        if (at < d->n_off)
            d->off[at] = d->off[--d->n_off];
        else if (d->n_off == OFF_MOST)
            return err_set(e, ERR_USAGE, "ablate: %d heads are off already", OFF_MOST);
        else
            d->off[d->n_off++] = list[0];
    }
    regenerate(d);
    if (d->n_off)
        dash_say(d, ' ', "%s off: reading again",
                 head_list_name(d->off, d->n_off, name, sizeof name));
    else
        dash_say(d, ' ', "all heads on");
    return true;
}

static bool restore(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->n_off = 0;
    d->sweep = false;
    regenerate(d);
    dash_say(d, ' ', "all heads on");
    return true;
}

static bool open_model(dash *d, const char *path, err *e) {
    if (d->n_models == MODELS_MOST)
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
    d->model[d->n_models++] = c;
    dash_say(d, ' ', "%c: %s", 'a' + d->n_models - 1, c->name);
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
        return err_set(e, ERR_MISSING, "%s: %s", text_show(rest), strerror(errno));
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_USAGE, "%s is a folder; a second model is opened by open b",
                       text_show(rest));
    if (d->n_documents_before == (int)(sizeof d->documents_before / sizeof *d->documents_before))
        return err_set(e, ERR_USAGE, "open: enough documents for one sitting; start again");
    char *path = mem_strdup(rest, e);
    if (!path)
        return false;
    if (d->document)
        d->documents_before[d->n_documents_before++] = d->document;
    d->document = path;
    d->T = 0;
    d->t = d->t0 = d->t1 = 0;
    d->follow = true;
    d->find[0] = 0;
    d->hits_of = NULL;
    d->cancelled = false;
    d->scroll = 0;
    d->overlay = OVERLAY_NONE;
    return true;
}

static bool reload(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    for (int i = 0; i < d->n_models; i++) {
        card *c = card_open(d->model[i]->path, d->o ? d->o->train_length : 0, e);
        if (!c)
            return false;
        card_free(
            c); // the sizes on screen stay; a model that has become another one is opened anew
    }
    d->reload++;
    d->hits_of = NULL;
    d->cancelled = false;
    dash_say(d, ' ', "reading model and document again");
    return true;
}

static bool bench(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    const card *c = dash_card(d);
    if (!c || !c->x.m)
        return err_set(e, ERR_USAGE, "bench: this model cannot be run");
    d->kernels = d->next_kernels++;
    d->kernels_slot = d->slot;
    d->cancelled = false;
    d->open |= 1u << 9;
    dash_say(d, ' ', "measuring the kernels of %s%s", c->name,
             d->document && x->read < x->T ? " after the pass" : "");
    return true;
}

static bool recompute(dash *d, const scene *x, const char *rest, err *e) {
    if (d->focus == 9 && !d->cancelled && x->s->fatal.code == ERR_NONE)
        return bench(d, x, rest, e);
    if (d->cancelled) {
        d->cancelled = false;
        dash_say(d, ' ', "the pass goes on");
    } else if (x->s->fatal.code != ERR_NONE) {
        d->reload++;
        dash_say(d, ' ', "trying again");
    } else {
        dash_say(d, ' ', "nothing to take up: everything asked for is computed or on its way");
    }
    return true;
}

static bool pause_work(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->paused = !d->paused;
    dash_say(d, ' ', d->paused ? "paused; Z goes on" : "going on");
    return true;
}

static bool cancel(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    bool again = x->live->on && x->live->now - d->cancelled_at < 2;
    if (again || !d->busy || (d->cancelled && !d->sweep && !d->kernels)) {
        d->quit = true;
        d->exit_code = 130;
        return true;
    }
    // A finished pass stays finished: only the kernels are stopped then.
    d->cancelled = !d->kernels || (d->document && x->read < x->T);
    d->sweep = false;
    d->kernels = 0;
    d->cancelled_at = x->live->on ? x->live->now : -10;
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
