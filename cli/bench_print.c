#include "cli/bench_print.h"

#include "bench/explain.h"
#include "cli/bench_text.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How far p5 and p95 lie apart, as a share of the median: what a reader may expect of one call.
static double spread(const summary *s) {
    return (s->p95 - s->p5) / s->median;
}

static double rate(const bench_row *row) {
    return row->items / (1e-3 * row_ms(row));
}

// The row of ours that has the same shape as another program's; NULL.
static const bench_row *ours(const record *r, const bench_row *row) {
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->rows[i].source, "deltop") == 0 && &r->rows[i] != row &&
            strcmp(row->source, "deltop") != 0 && bench_same_shape(&r->rows[i], row))
            return &r->rows[i];
    return NULL;
}

static void error_text(const bench_row *row, char *buf, size_t size) {
    double worst = row->error;
    worst = row->state_error > worst ? row->state_error : worst;
    worst = row->stress > worst ? row->stress : worst;
    if (isfinite(worst))
        snprintf(buf, size, "%.1e", worst);
    else
        snprintf(buf, size, "-");
}

static void print_row(const record *r, const bench_row *row, int name_width, FILE *f) {
    char a[32], b[32], c[32], d[32], error[16];
    summary warm = timings_summary(&row->warm), cold = timings_summary(&row->cold);
    error_text(row, error, sizeof error);
    if (row->status != ROW_OK) {
        fprintf(f, "%-*s  %s: %s\n", name_width, row->name,
                row->status == ROW_WRONG ? "WRONG, no time" : row_status_name(row->status),
                row->why);
        return;
    }
    fprintf(f, "%-*s %9s %9s ", name_width, row->name, bench_number(warm.median, a, sizeof a),
            bench_number(cold.median, b, sizeof b));
    if (isfinite(spread(&warm)))
        fprintf(f, "%4.0f%% ", 100 * spread(&warm));
    else
        fprintf(f, "%5s ", "-");
    fprintf(f, "%8s %9s", error, bench_rate(rate(row), c, sizeof c));
    if (isfinite(row->floor_ms))
        fprintf(f, " %7s %s", bench_number(row_ms(row) / row->floor_ms, d, sizeof d), row->bound);
    const bench_row *mine = ours(r, row);
    if (mine && isfinite(row_ms(mine)))
        fprintf(f, "  %.2f times deltop", row_ms(row) / row_ms(mine));
    else if (strcmp(row->source, "deltop") != 0)
        fprintf(f, "  %s", row->source);
    fputc('\n', f);
}

// Indented, broken at blanks.
static void wrap(const char *s, int indent, int width, FILE *f) {
    while (*s) {
        int n = (int)strlen(s), room = width - indent;
        if (n > room) {
            n = room;
            while (n > 0 && s[n] != ' ')
                n--;
            if (n == 0)
                n = (int)strcspn(s, " ");
        }
        fprintf(f, "%*s%.*s\n", indent, "", n, s);
        s += n;
        s += strspn(s, " ");
    }
}

void bench_print_table(const record *r, bool explain, int width, FILE *f) {
    int name_width = 4;
    char text[2048];
    for (size_t i = 0; i < r->n; i++) {
        int n = (int)strlen(r->rows[i].name);
        name_width = n > name_width ? n : name_width;
    }
    if (r->n)
        fprintf(f, "%-*s %9s %9s %5s %8s %9s %7s %s\n", name_width, "case", "warm ms", "cold ms",
                "90%", "error", "items/s", "x floor", "bound");
    bool *done = calloc(r->n + 1, sizeof *done);
    for (size_t i = 0; done && i < r->n; i++) {
        if (done[i])
            continue;
        for (size_t k = i; k < r->n; k++) { // ours, then what others measured of the same shape
            if (done[k] || (k != i && !bench_same_shape(&r->rows[i], &r->rows[k])))
                continue;
            done[k] = true;
            print_row(r, &r->rows[k], name_width, f);
            if (explain)
                wrap(bench_explain(&r->rows[k], text, sizeof text), 4, width, f);
        }
    }
    free(done);
}

void bench_print_markdown(const record *r, FILE *f) {
    char a[32], b[32], c[32], d[32], error[16];
    fprintf(f, "| case | warm ms | cold ms | error | items/s | x floor | bound | kernel |\n"
               "|---|---:|---:|---:|---:|---:|---|---|\n");
    for (size_t i = 0; i < r->n; i++) {
        const bench_row *row = &r->rows[i];
        summary warm = timings_summary(&row->warm), cold = timings_summary(&row->cold);
        error_text(row, error, sizeof error);
        markdown_cell(row->name, f);
        if (row->status != ROW_OK) {
            fprintf(f, "| %s | | %s | | | ",
                    row->status == ROW_WRONG ? "**wrong**" : row_status_name(row->status), error);
            markdown_cell(row->why, f);
        } else {
            fprintf(f, "| %s | %s | %s | %s | %s | %s ", bench_number(warm.median, a, sizeof a),
                    bench_number(cold.median, b, sizeof b), error,
                    bench_rate(rate(row), c, sizeof c),
                    bench_number(row_ms(row) / row->floor_ms, d, sizeof d), row->bound);
            markdown_cell(row->kernel, f);
        }
        fputs("|\n", f);
    }
}

void bench_print_csv(const record *r, const char *command, FILE *f) {
    if (command)
        fprintf(f, "# command: %s\n", text_show(command));
    fputs("case,source,kernel,status,why,error,state_error,stress_error,tolerance,warm_ms,warm_mad_"
          "ms,"
          "warm_p5_ms,warm_p95_ms,warm_min_ms,warm_samples,warm_marked,cold_ms,cold_samples,items,"
          "item,"
          "flop,bytes,floor_ms,bound,clock_mhz,load,noise\n",
          f);
    for (size_t i = 0; i < r->n; i++) {
        const bench_row *row = &r->rows[i];
        summary w = timings_summary(&row->warm), c = timings_summary(&row->cold);
        csv_text(row->name, f);
        csv_next_text(row->source, f);
        csv_next_text(row->kernel, f);
        csv_next_text(row_status_name(row->status), f);
        csv_next_text(row->why, f);
        const double number[] = {row->error,
                                 row->state_error,
                                 row->stress,
                                 row->tolerance,
                                 w.median,
                                 w.mad,
                                 w.p5,
                                 w.p95,
                                 w.min,
                                 (double)w.n,
                                 (double)timings_marked(&row->warm),
                                 c.median,
                                 (double)c.n,
                                 row->items};
        for (size_t k = 0; k < sizeof number / sizeof *number; k++)
            csv_next(number[k], f);
        csv_next_text(row->item, f);
        csv_next(row->flop, f);
        csv_next(row->bytes, f);
        csv_next(row->floor_ms, f);
        csv_next_text(row->bound, f);
        csv_next(row->clock_mhz, f);
        csv_next(row->load, f);
        csv_next(row->noise, f);
        fputc('\n', f);
    }
}

void bench_print_junit(const record *r, FILE *f) {
    size_t bad = 0, skipped = 0;
    for (size_t i = 0; i < r->n; i++) {
        bad += r->rows[i].status == ROW_WRONG || r->rows[i].status == ROW_FAILED;
        skipped += r->rows[i].status == ROW_SKIPPED;
    }
    junit_begin("deltop bench", r->n, bad, skipped, f);
    for (size_t i = 0; i < r->n; i++) {
        const bench_row *row = &r->rows[i];
        char text[2048];
        junit_case("deltop.bench", row->name, 1e-3 * row_ms(row), f);
        bench_explain(row, text, sizeof text);
        if (row->status == ROW_WRONG || row->status == ROW_FAILED)
            junit_failure(row_status_name(row->status), row->why, f);
        else if (row->status == ROW_SKIPPED)
            junit_skipped(row->why, f);
        junit_output(text, f);
        junit_case_end(f);
    }
    junit_end(f);
}
