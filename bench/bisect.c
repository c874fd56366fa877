#include "bench/bisect.h"

#include "bench/ab.h"
#include "bench/child.h"
#include "bench/match.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct bisection {
    const bisect_plan *p;
    bisect_result *r;
    char root[512], good[560], test[560]; // folders; root "" until made
    char **commits;                       // oldest first, the last is BAD
    size_t n;
} bisection;

typedef enum { STEP_FINE, STEP_SLOW, STEP_BROKEN } step_outcome;

static void tell(const bisection *b, const char *text) {
    if (b->p->say)
        b->p->say(b->p->ctx, text);
}

// First line of git's answer, or all of it; NULL when it fails.
static char *git(const char *const *argv, const char *folder, err *e) {
    char *out = NULL;
    size_t n = 0;
    int code = 0;
    if (!child_run(argv, folder, &out, &n, &code, e))
        return NULL;
    if (code != 0) {
        free(out);
        return NULL;
    }
    return out;
}

#define GIT(folder, e, ...) git((const char *const[]){"git", __VA_ARGS__, NULL}, folder, e)

// The commit's full name into buf.
static bool resolve(const char *name, char *buf, size_t size, err *e) {
    char spec[256];
    snprintf(spec, sizeof spec, "%s^{commit}", name);
    char *out = GIT(NULL, e, "rev-parse", "--verify", "--quiet", "--end-of-options", spec);
    if (!out)
        return err_set(e, ERR_INPUT, "option --git-bisect: %s is no commit here", text_show(name));
    snprintf(buf, size, "%.*s", (int)strcspn(out, "\n"), out);
    free(out);
    return true;
}

static bool list_commits(bisection *b, const char *good, const char *bad, err *e) {
    char range[160];
    snprintf(range, sizeof range, "%s..%s", good, bad);
    char *between = GIT(NULL, e, "merge-base", "--is-ancestor", good, bad);
    char *out = between ? GIT(NULL, e, "rev-list", "--reverse", "--first-parent", range) : NULL;
    free(between);
    if (!out || !out[0]) {
        free(out);
        return err_set(e, ERR_INPUT, "option --git-bisect: %s does not come before %s",
                       text_show(b->p->good), text_show(b->p->bad));
    }
    size_t cap = 0;
    bool ok = true;
    for (char *save = NULL, *line = strtok_r(out, "\n", &save); ok && line;
         line = strtok_r(NULL, "\n", &save)) {
        ok = mem_grow((void **)&b->commits, &cap, b->n + 1, sizeof *b->commits, "commits", e);
        ok = ok && (b->commits[b->n] = mem_strdup(line, e)) != NULL;
        b->n += ok;
    }
    free(out);
    return ok;
}

static bool build(const bisection *b, const char *folder, err *e) {
    int code = 0;
    const char *argv[] = {"sh", "-c", b->p->build, NULL};
    char program[600];
    snprintf(program, sizeof program, "%s/deltop", folder);
    return child_run(argv, folder, NULL, NULL, &code, e) && code == 0 && access(program, X_OK) == 0;
}

static bool note(bisection *b, const char *commit, const char *verdict, double ratio, err *e) {
    char line[128];
    snprintf(line, sizeof line, "%.12s %-8s", commit, verdict);
    if (isfinite(ratio))
        snprintf(line + strlen(line), sizeof line - strlen(line), " %+.1f%%", 100 * (ratio - 1));
    tell(b, line);
    size_t old = b->r->table ? strlen(b->r->table) : 0;
    char *grown = realloc(b->r->table, old + strlen(line) + 2);
    json_t *o = json_pack("{s:s, s:s, s:o}", "commit", commit, "verdict", verdict, "ratio",
                          isfinite(ratio) ? json_real(ratio) : json_null());
    if (grown) {
        b->r->table = grown;
        sprintf(grown + old, "%s\n", line);
    }
    return (grown && o && json_array_append_new(b->r->steps, o) == 0) ||
           err_set(e, ERR_NOMEM, "out of memory: a bisection");
}

// The test worktree against the good one. Slower: any chosen case is.
static bool compare(bisection *b, const char *commit, step_outcome *out, err *e) {
    char good[600], test[600];
    snprintf(good, sizeof good, "%s/deltop", b->good);
    snprintf(test, sizeof test, "%s/deltop", b->test);
    match_rules rules = {.verdict = verdict_default(), .across_devices = true};
    rules.verdict.threshold = b->p->threshold;
    rules.verdict.noise = 0.005;
    bool ok = true;
    *out = STEP_FINE;
    for (int turns = b->p->turns; ok; turns *= 2) {
        record ra, rb;
        comparison c = {0};
        record_init(&ra);
        record_init(&rb);
        ok = ab_builds(good, test, b->p->arguments, turns, NULL, NULL, &ra, &rb, e) &&
             match(&ra, 1, &rb, &rules, &c, e);
        double worst = NAN;
        for (size_t i = 0; ok && i < c.n; i++)
            worst = c.v[i].c.ratio > worst || isnan(worst) ? c.v[i].c.ratio : worst;
        bool unclear = ok && c.count[VERDICT_UNCLEAR] && !c.count[VERDICT_SLOWER];
        *out = ok && c.count[VERDICT_SLOWER] ? STEP_SLOW : STEP_FINE;
        if (ok && c.count[VERDICT_SLOWER] == 0 &&
            c.count[VERDICT_SAME] + c.count[VERDICT_FASTER] + c.count[VERDICT_UNCLEAR] == 0)
            *out = STEP_BROKEN; // wrong, or the case did not exist yet
        comparison_free(&c);
        record_free(&ra);
        record_free(&rb);
        if (ok && unclear && turns < 4 * b->p->turns)
            continue; // more turns
        static const char *const words[] = {"fine", "SLOWER", "broken"};
        b->r->measured++;
        return ok && note(b, commit, words[*out], worst, e);
    }
    return false;
}

static bool try_commit(bisection *b, const char *commit, step_outcome *out, err *e) {
    char *moved = GIT(b->test, e, "checkout", "--quiet", "--force", "--detach", commit);
    err own = {0};
    *out = STEP_BROKEN;
    if (!moved)
        return err_set(e, ERR_IO, "git cannot check out %s", commit);
    free(moved);
    if (!build(b, b->test, &own))
        return own.code == ERR_CANCELLED ? err_set(e, own.code, "%s", own.text)
                                         : note(b, commit, "no build", NAN, e);
    return compare(b, commit, out, e);
}

static bool make_worktrees(bisection *b, const char *good, const char *bad, err *e) {
    if (!file_temporary_folder("deltop-bisect-", b->root, sizeof b->root, e))
        return false;
    snprintf(b->good, sizeof b->good, "%s/good", b->root);
    snprintf(b->test, sizeof b->test, "%s/test", b->root);
    char *a = GIT(NULL, e, "worktree", "add", "--quiet", "--detach", b->good, good);
    char *c = a ? GIT(NULL, e, "worktree", "add", "--quiet", "--detach", b->test, bad) : NULL;
    bool ok = a && c;
    free(a);
    free(c);
    return ok || err_set(e, ERR_IO, "git worktree add failed in %s", text_show(b->root));
}

// Between commits[lo] (fine; -1: GOOD) and commits[hi] (slow) until they are neighbours.
static bool search(bisection *b, err *e) {
    long lo = -1, hi = (long)b->n - 1;
    bool *broken = mem_zalloc(b->n, sizeof *broken, "commits", e), ok = broken != NULL;
    while (ok && hi - lo > 1) {
        long mid = -1;
        for (long d = 0, m = (lo + hi) / 2; d <= hi - lo && mid < 0; d++) // nearest that builds
            for (int s = -1; s <= 1 && mid < 0; s += 2)
                if (m + s * d > lo && m + s * d < hi && !broken[m + s * d])
                    mid = m + s * d;
        if (mid < 0)
            break; // only commits that do not build are left between
        step_outcome out;
        ok = try_commit(b, b->commits[mid], &out, e);
        if (out == STEP_BROKEN)
            broken[mid] = true;
        else
            *(out == STEP_SLOW ? &hi : &lo) = mid;
    }
    free(broken);
    if (!ok)
        return false;
    snprintf(b->r->commit, sizeof b->r->commit, "%s", b->commits[hi]);
    char *subject = GIT(NULL, e, "show", "-s", "--format=%s", b->commits[hi]);
    snprintf(b->r->subject, sizeof b->r->subject, "%.*s", subject ? (int)strcspn(subject, "\n") : 0,
             subject ? subject : "");
    free(subject);
    return true;
}

bool bench_bisect(const bisect_plan *p, bisect_result *r, err *e) {
    bisection b = {.p = p, .r = r};
    char good[64], bad[64];
    step_outcome out = STEP_FINE;
    *r = (bisect_result){.steps = json_array()};
    bool ok = r->steps && resolve(p->good, good, sizeof good, e) &&
              resolve(p->bad, bad, sizeof bad, e) && list_commits(&b, good, bad, e) &&
              make_worktrees(&b, good, bad, e);
    if (ok) {
        tell(&b, "building both ends");
        ok = (build(&b, b.good, e) || err_set(e, ERR_INPUT, "%s does not build with: %s",
                                              text_show(p->good), text_show(p->build))) &&
             (build(&b, b.test, e) || err_set(e, ERR_INPUT, "%s does not build with: %s",
                                              text_show(p->bad), text_show(p->build)));
    }
    ok = ok && compare(&b, bad, &out, e);
    if (ok && out != STEP_SLOW)
        ok = err_set(e, ERR_INPUT, "%s is not slower than %s in the chosen cases",
                     text_show(p->bad), text_show(p->good));
    ok = ok && search(&b, e);
    if (b.root[0]) {
        char *a = GIT(NULL, NULL, "worktree", "remove", "--force", b.good);
        char *c = GIT(NULL, NULL, "worktree", "remove", "--force", b.test);
        free(a);
        free(c);
        rmdir(b.root);
    }
    for (size_t i = 0; i < b.n; i++)
        free(b.commits[i]);
    free(b.commits);
    return ok;
}

void bisect_free(bisect_result *r) {
    json_decref(r->steps);
    free(r->table);
    *r = (bisect_result){0};
}
