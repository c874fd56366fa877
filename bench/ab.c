#include "bench/ab.h"

#include "bench/child.h"
#include "bench/op.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 128 };

// One turn of one build; its rows are merged into *r as a further round.
static bool turn(const char *program, const char *const *arguments, record *r, err *e) {
    const char *argv[WORDS] = {program, "bench", "--rounds", "1", "--json", "--quiet"};
    int n = 6, code = 0;
    for (; arguments[n - 6] && n < WORDS - 1; n++)
        argv[n] = arguments[n - 6];
    char *text = NULL;
    size_t size = 0;
    if (!child_run(argv, NULL, &text, &size, &code, e))
        return false;
    record one;
    record_init(&one);
    // A wrong kernel ends with 4 and has a result nevertheless.
    json_t *v = code == 0 || code == 4 ? jsonio_parse(text, size, program, NULL, e) : NULL;
    bool ok = v && record_from_json(&one, v, program, e) && record_merge(r, &one, e);
    if (!ok && code != 0 && code != 4)
        err_set(e, ERR_INPUT, "%s bench ended with exit code %d", text_show(program), code);
    json_decref(v);
    record_free(&one);
    free(text);
    return ok;
}

bool ab_builds(const char *a, const char *b, const char *const *arguments, int turns,
               progress_fn progress, void *ctx, record *ra, record *rb, err *e) {
    for (int i = 0; i < 2 * turns; i++) {
        bool first = (i + 1) / 2 % 2 == 0; // A B B A A B
        if (!turn(first ? a : b, arguments, first ? ra : rb, e))
            return false;
        if (progress && !progress(ctx, i + 1, 2 * turns))
            return err_set(e, ERR_CANCELLED, "stopped");
    }
    return true;
}

// The case that side measures.
static bench_case side_case(const bench_case *from, const char *side) {
    static const char *const forms[] = {"auto", "step", "chunk", "portable"};
    bench_case c = *from;
    c.impl = "deltop";
    for (int i = 0; i < 4; i++)
        if (strcmp(side, forms[i]) == 0) {
            c.at[AXIS_FORM] = i;
            return c;
        }
    if (strcmp(side, "deltop") != 0)
        c.impl = side;
    return c;
}

static bool side_known(const bench_plan *p, const char *side, err *e) {
    static const char *const words[] = {"auto", "step", "chunk", "portable", "deltop"};
    for (int i = 0; i < 5; i++)
        if (strcmp(side, words[i]) == 0)
            return true;
    return (p->plugins && plugins_find(p->plugins, side)) ||
           err_set(e, ERR_USAGE,
                   "option --ab: \"%s\" is no kernel (auto, step, chunk, portable, deltop, or "
                   "PLUGIN:KERNEL of a "
                   "--plugin) and no path of a program (which holds a slash)",
                   text_show(side));
}

bool ab_kernels(const bench_plan *p, const char *a, const char *b, record *ra, record *rb, err *e) {
    const char *const side[2] = {a, b};
    record *const to[2] = {ra, rb};
    case_list both = {0}, kept = {0};
    bool ok = side_known(p, a, e) && side_known(p, b, e);
    // A and B of a case stand side by side: every second round goes over them backwards.
    for (size_t i = 0; ok && i < p->cases->n; i++) {
        if (p->cases->v[i].at[AXIS_FORM] == AXIS_UNSET ||
            strcmp(p->cases->v[i].impl, "deltop") != 0)
            continue; // no recurrence: it has one kernel only; or a plugin's own row
        ok = case_list_add(&kept, &p->cases->v[i], e);
        for (int k = 0; ok && k < 2; k++) {
            ok = mem_grow((void **)&both.v, &both.cap, both.n + 1, sizeof *both.v, "cases", e);
            if (ok)
                both.v[both.n++] = side_case(&p->cases->v[i], side[k]);
        }
    }
    if (ok && both.n == 0)
        ok = err_set(e, ERR_USAGE, "option --ab: no chosen case is a recurrence");
    bench_plan q = *p;
    record r;
    record_init(&r);
    q.cases = &both;
    ok = ok && bench_run(&q, &r, e);
    for (size_t i = 0; ok && i < r.n; i++) {
        bench_row *row = record_add(to[i % 2], e);
        ok = row != NULL;
        if (!ok)
            break;
        json_decref(row->params);
        *row = r.rows[i];
        row_clear(&r.rows[i]);
        r.rows[i].params = NULL;
        // What differs is the kernel: out of the key.
        json_object_del(row->params, "impl");
        json_object_del(row->params, "form");
        case_name(&kept.v[i / 2], row->name, sizeof row->name);
    }
    for (int k = 0; ok && k < 2; k++)
        json_object_update(to[k]->about, r.about);
    record_free(&r);
    case_list_free(&both);
    case_list_free(&kept);
    return ok;
}
