// Comparisons as text (cli/bench_print.h).
#include "bench/explain.h"
#include "cli/bench_print.h"
#include "cli/bench_text.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What a reader has to see first.
static const verdict_kind order[] = {VERDICT_WRONG,        VERDICT_SLOWER, VERDICT_UNCLEAR,
                                     VERDICT_INCOMPARABLE, VERDICT_GONE,   VERDICT_FASTER,
                                     VERDICT_NEW,          VERDICT_SAME};
enum { ORDER = sizeof order / sizeof *order };

static const char *name_of(const pairing *p) {
    return p->new ? p->new->name : p->old->name;
}

static void percent(double ratio, char *buf, size_t size) {
    if (isfinite(ratio))
        snprintf(buf, size, "%+.1f%%", 100 * (ratio - 1));
    else
        snprintf(buf, size, "-");
}

void compare_print_counts(const comparison *c, FILE *f) {
    const char *comma = "";
    for (int i = 0; i < ORDER; i++)
        if (c->count[order[i]]) {
            fprintf(f, "%s%zu %s", comma, c->count[order[i]], verdict_name(order[i]));
            comma = ", ";
        }
    if (!*comma)
        fputs("no rows", f);
}

void compare_print_table(const comparison *c, bool all, const char *old, const char *new, FILE *f) {
    int width = 4;
    char a[32], b[32], change[24], lo[24], hi[24], cycles[24];
    for (size_t i = 0; i < c->n; i++)
        if (all || c->v[i].c.verdict != VERDICT_SAME) {
            int n = (int)strlen(name_of(&c->v[i]));
            width = n > width ? n : width;
        }
    bool any = false;
    for (int k = 0; k < ORDER; k++) {
        for (size_t i = 0; i < c->n; i++) {
            const pairing *p = &c->v[i];
            if (p->c.verdict != order[k] || (order[k] == VERDICT_SAME && !all))
                continue;
            if (!any)
                fprintf(f, "%-12s %-*s %6s ms %6s ms %8s %17s %8s\n", "verdict", width, "case", old,
                        new, "change", "interval", "cycles");
            any = true;
            percent(p->c.ratio, change, sizeof change);
            percent(p->c.lo, lo, sizeof lo);
            percent(p->c.hi, hi, sizeof hi);
            percent(p->c.cycles_ratio, cycles, sizeof cycles);
            fprintf(f, "%-12s %-*s %9s %9s %8s %8s %8s %8s  %s\n", verdict_name(order[k]), width,
                    name_of(p), bench_number(p->c.old_ms, a, sizeof a),
                    bench_number(p->c.new_ms, b, sizeof b), change, lo, hi, cycles, p->c.reason);
        }
    }
}

// "-1.2% to +0.3%"; "-" for rows with one side only.
static const char *interval(const pairing *p, char *buf, size_t size) {
    char lo[24], hi[24];
    if (isnan(p->c.lo) && isnan(p->c.hi))
        return "-";
    percent(p->c.lo, lo, sizeof lo);
    percent(p->c.hi, hi, sizeof hi);
    snprintf(buf, size, "%s to %s", lo, hi);
    return buf;
}

static void markdown_row(const pairing *p, FILE *f) {
    char a[32], b[32], change[24], between[64], cycles[24];
    bool loud = p->c.verdict == VERDICT_SLOWER || p->c.verdict == VERDICT_WRONG;
    percent(p->c.ratio, change, sizeof change);
    percent(p->c.cycles_ratio, cycles, sizeof cycles);
    fprintf(f, "| %s%s%s ", loud ? "**" : "", verdict_name(p->c.verdict), loud ? "**" : "");
    markdown_cell(name_of(p), f);
    fprintf(f, "| %s | %s | %s | %s | %s ", bench_number(p->c.old_ms, a, sizeof a),
            bench_number(p->c.new_ms, b, sizeof b), change, interval(p, between, sizeof between),
            cycles);
    markdown_cell(p->c.reason, f);
    fputs("|\n", f);
}

void compare_print_markdown(const comparison *c, size_t max_bytes, FILE *f) {
    enum { TAIL = 160 }; // room for the last sentence
    size_t left = 0, used = 0;
    char *row = NULL;
    size_t n = 0;
    FILE *m = open_memstream(&row, &n);
    if (!m)
        return;
    compare_print_counts(c, m);
    fputs("\n\n| verdict | case | old ms | new ms | change | interval | cycles | reason |\n"
          "|---|---|---:|---:|---:|---|---:|---|\n",
          m);
    fclose(m);
    fputs(row, f);
    used = n;
    free(row);
    for (int k = 0; k < ORDER; k++)
        for (size_t i = 0; i < c->n; i++) {
            if (c->v[i].c.verdict != order[k])
                continue;
            bool must = order[k] == VERDICT_SLOWER || order[k] == VERDICT_WRONG;
            row = NULL;
            m = open_memstream(&row, &n);
            if (!m)
                return;
            markdown_row(&c->v[i], m);
            fclose(m);
            if (must || max_bytes == 0 || (left == 0 && used + n + TAIL <= max_bytes)) {
                fputs(row, f);
                used += n;
            } else {
                left++;
            }
            free(row);
        }
    if (left)
        fprintf(f,
                "\n%zu further rows were left out to stay below %zu bytes; the whole table is in "
                "compare.csv.\n",
                left, max_bytes);
}

void compare_print_csv(const comparison *c, const char *command, FILE *f) {
    if (command)
        fprintf(f, "# command: %s\n", text_show(command));
    fputs("verdict,case,old_ms,new_ms,ratio,lo,hi,cycles_ratio,noise,reason\n", f);
    for (size_t i = 0; i < c->n; i++) {
        const pairing *p = &c->v[i];
        csv_text(verdict_name(p->c.verdict), f);
        csv_next_text(name_of(p), f);
        const double number[] = {p->c.old_ms, p->c.new_ms,       p->c.ratio, p->c.lo,
                                 p->c.hi,     p->c.cycles_ratio, p->c.noise};
        for (size_t k = 0; k < sizeof number / sizeof *number; k++)
            csv_next(number[k], f);
        csv_next_text(p->c.reason, f);
        fputc('\n', f);
    }
}

void compare_print_junit(const comparison *c, bool strict, FILE *f) {
    size_t bad = c->count[VERDICT_SLOWER] + c->count[VERDICT_WRONG];
    size_t open =
        c->count[VERDICT_UNCLEAR] + c->count[VERDICT_INCOMPARABLE] + c->count[VERDICT_GONE];
    junit_begin("deltop compare", c->n, bad + (strict ? open : 0), strict ? 0 : open, f);
    for (size_t i = 0; i < c->n; i++) {
        const pairing *p = &c->v[i];
        char text[320], a[24], between[64];
        junit_case("deltop.compare", name_of(p), 1e-3 * p->c.new_ms, f);
        if (isnan(p->c.ratio)) {
            snprintf(text, sizeof text, "%s: %s", verdict_name(p->c.verdict), p->c.reason);
        } else {
            percent(p->c.ratio, a, sizeof a);
            snprintf(text, sizeof text, "%s: %s (%s) %s", verdict_name(p->c.verdict), a,
                     interval(p, between, sizeof between), p->c.reason);
        }
        bool undecided = p->c.verdict == VERDICT_UNCLEAR || p->c.verdict == VERDICT_INCOMPARABLE ||
                         p->c.verdict == VERDICT_GONE;
        if (p->c.verdict == VERDICT_SLOWER || p->c.verdict == VERDICT_WRONG ||
            (strict && undecided))
            junit_failure(verdict_name(p->c.verdict), text, f);
        else if (undecided)
            junit_skipped(text, f);
        junit_output(text, f);
        junit_case_end(f);
    }
    junit_end(f);
}
