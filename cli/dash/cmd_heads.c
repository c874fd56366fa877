// Commands about the grid and its heads: metric, table, marks, filter.
#include "cli/dash/cmd.h"
#include "cli/dash/heads.h"

#include <stdio.h>
#include <string.h>

static bool metric_applies(const dash *d, metric m) {
    const card *c = dash_card(d);
    if (m == METRIC_GATE)
        return c && c->s.decay != DECAY_NONE;
    if (m == METRIC_BETA)
        return c && c->s.beta_max > 0;
    return true;
}

static bool choose_metric(dash *d, const scene *x, const char *rest, err *e) {
    metric m;
    int by;
    (void)x;
    if (metric_find(rest, &m)) {
        if (!metric_applies(d, m))
            return err_set(e, ERR_USAGE, "metric %s: this family has none", rest);
        d->look.metric = m;
        return true;
    }
    if (!cmd_direction(rest, &by, e)) {
        err_clear(e);
        return err_set(e, ERR_USAGE,
                       "metric: expected erank, norm, growth, gate, beta, rho, t1/2, abl, next or "
                       "previous");
    }
    do
        d->look.metric = (metric)((d->look.metric + by + METRICS) % METRICS);
    while (!metric_applies(d, d->look.metric));
    return true;
}

static bool table(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->look.table = !d->look.table;
    if (!(d->open >> 1 & 1) || d->focus != 1)
        d->open |= 2, d->focus = 1;
    return true;
}

static bool sort(dash *d, const scene *x, const char *rest, err *e) {
    int by;
    (void)x;
    for (int i = 0; i < TABLE_COLUMNS; i++)
        if (strcmp(rest, heads_column(i)) == 0) {
            d->look.sort = i;
            d->look.table = true;
            return true;
        }
    if (!cmd_direction(rest, &by, e)) {
        err_clear(e);
        return err_set(e, ERR_USAGE, "sort: expected a column of the table, next or previous");
    }
    d->look.sort = (d->look.sort + by + TABLE_COLUMNS) % TABLE_COLUMNS;
    d->look.table = true;
    return true;
}

static bool invert(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->look.invert = !d->look.invert;
    return true;
}

static bool mark_head(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest;
    const card *c = dash_card(d);
    if (!c || c->n_heads == 0)
        return err_set(e, ERR_USAGE, "mark: this model has no heads with matrix states");
    dash_toggle_mark(d);
    return true;
}

static bool unmark(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->n_marks = d->oldest_mark = 0;
    return true;
}

static bool filter(dash *d, const scene *x, const char *rest, err *e) {
    int at;
    if (*rest && !heads_check(x, rest, &at, e))
        return false;
    snprintf(d->look.filter, sizeof d->look.filter, "%s", rest);
    return true;
}

const cmd cmd_grids[] = {
    {"metric", "NAME|next|previous", COMPLETE_METRIC, choose_metric},
    {"table", "", COMPLETE_NONE, table},
    {"sort", "COLUMN|next|previous", COMPLETE_METRIC, sort},
    {"invert", "", COMPLETE_NONE, invert},
    {"mark", "", COMPLETE_NONE, mark_head},
    {"unmark", "", COMPLETE_NONE, unmark},
    {"filter", "EXPRESSION", COMPLETE_NONE, filter},
};
const size_t n_cmd_grids = sizeof cmd_grids / sizeof *cmd_grids;
