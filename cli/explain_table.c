// All recurrences side by side: one line each, for a terminal or for a document.
#include "cli/explain_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELLS = 6, CELL = 96 };

// What a line shows; the last four are measured.
static void fill(const recurrence *r, const explain_figures *f, bool utf8, char cell[CELLS][CELL]) {
    snprintf(cell[0], CELL, "%s", r->name);
    explain_symbols(r->brief, utf8, cell[1], CELL);
    snprintf(cell[2], CELL, "%s", explain_gradient_word(r->kind));
    if (isnan(f->gradient))
        snprintf(cell[3], CELL, "-");
    else
        snprintf(cell[3], CELL, r->kind == GRADIENT_FORMAL ? "%.1f" : "%.0e",
                 r->kind == GRADIENT_FORMAL ? f->gradient_median : f->gradient);
    char text[CELL];
    if (f->imag < 1e-6)
        snprintf(text, CELL, f->real_lo == f->real_hi ? "%.2f" : "%.2f..%.2f", f->real_lo,
                 f->real_hi);
    else
        snprintf(text, CELL, "radius %.2f", f->radius);
    explain_symbols(text, utf8, cell[4], CELL);
    snprintf(cell[5], CELL, "%.2f", f->window_norm);
}

static int columns(const char *s) {
    int n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void line(const output *out, char cell[CELLS][CELL], const int width[CELLS]) {
    for (int c = 0; c < CELLS; c++) {
        bool right = c == 3 || c == 5, last = c == CELLS - 1;
        int pad = width[c] - columns(cell[c]);
        output_print(out, "%*s%s%*s%s", right ? pad : 0, "", cell[c], right || last ? 0 : pad, "",
                     last ? "\n" : "  ");
    }
}

static const char *const legend =
    "F = I − β k kᵀ. gradient: where the update is a gradient step on the row's loss, and by how "
    "much central differences miss it (decayed: at the decayed state; each step: n_h of them; "
    "implicit: ∇L at the new state; formal: not its gradient, median miss). eigenvalues: of one "
    "A. ‖P‖: largest norm of a product of 8 tokens; above 1 the state can grow by itself. All "
    "over random tokens, which rarely find the worst: two steps of RWKV-7 can grow by 1.23 (G15). "
    "deltop explain NAME tells the rest.";

static void print_legend(const output *out, bool utf8) {
    char buf[1024];
    explain_symbols(legend, utf8, buf, sizeof buf);
    int at = 0;
    for (const char *s = buf; *s;) {
        size_t n = strcspn(s, " ");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)n, s);
        int w = columns(word);
        output_print(out,
                     at == 0           ? "%s%s"
                     : at + 1 + w > 80 ? "\n%s%s"
                                       : "%s%s",
                     at == 0 || at + 1 + w > 80 ? "" : " ", word);
        at = at == 0 || at + 1 + w > 80 ? w : at + 1 + w;
        s += n + (s[n] == ' ');
    }
    output_print(out, "\n");
}

static void print_markdown(const output *out, const explain_figures *f) {
    output_print(out, "| row | recurrence | model types | loss | update | A | gradient | "
                      "error | eigenvalues of one A | norm of 8-token products |\n"
                      "|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n_recurrences; i++) {
        const recurrence *r = &recurrences[i];
        char cell[CELLS][CELL];
        fill(r, &f[i], true, cell);
        for (char *s = cell[4]; (s = strchr(s, '|')); s++) // a bar would end the cell
            *s = ' ';
        output_print(out, "| %s | %s | %s | `%s` | `%s` | `%s` | %s | %s | %s | %s |\n", r->id,
                     r->name, r->families[0] ? r->families : "-", r->loss, r->update,
                     strncmp(r->transition, "A = ", 4) == 0 ? r->transition + 4 : r->transition,
                     cell[2], cell[3], cell[4], cell[5]);
    }
    output_print(out, "\n%s\n", legend);
}

void explain_print_table(const output *out, const explain_figures *f, const explain_look *look) {
    if (look->markdown) {
        print_markdown(out, f);
        return;
    }
    char cell[CELLS][CELL] = {"recurrence", "A", "gradient", "error", "eigenvalues", ""};
    char head[CELLS][CELL];
    int width[CELLS];
    explain_symbols("‖P‖", look->utf8, cell[5], CELL);
    memcpy(head, cell, sizeof head);
    for (int c = 0; c < CELLS; c++)
        width[c] = columns(head[c]);
    for (size_t i = 0; i < n_recurrences; i++) {
        fill(&recurrences[i], &f[i], look->utf8, cell);
        for (int c = 0; c < CELLS; c++)
            width[c] = columns(cell[c]) > width[c] ? columns(cell[c]) : width[c];
    }
    line(out, head, width);
    for (size_t i = 0; i < n_recurrences; i++) {
        fill(&recurrences[i], &f[i], look->utf8, cell);
        line(out, cell, width);
    }
    output_print(out, "\n");
    print_legend(out, look->utf8);
}
