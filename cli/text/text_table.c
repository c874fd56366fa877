// Tables: names and units above, numbers to the right, text to the left. Columns that do not fit
// follow in a second block, with the first column again.
#include "cli/text/part.h"

#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 160, GAP = 2, WIDEST = 40 };

static char *cell_text(const textplot *t, const column *c, size_t i, char *buf) {
    if (c->text)
        return grid_escape(c->text[i], t->utf8, buf, CELL);
    text_real(c->num[i], c->decimals > 0 ? c->decimals : 4, buf, CELL);
    return buf;
}

static int column_width(const textplot *t, const column *c) {
    char buf[CELL];
    int w = grid_width(grid_escape(c->name, t->utf8, buf, sizeof buf));
    int unit = *c->unit ? grid_width(grid_escape(c->unit, t->utf8, buf, sizeof buf)) + 2 : 0;
    w = unit > w ? unit : w;
    for (size_t i = 0; i < c->n; i++) {
        int one = grid_width(cell_text(t, c, i, buf));
        w = one > w ? one : w;
    }
    int most = t->columns < WIDEST ? t->columns : WIDEST;
    return w > most ? most : w;
}

// One field, with its gap in front; blanks at the end of a line are held back in *owed.
static void field(const textplot *t, const char *s, int width, bool right, int gap, int *owed) {
    int w = grid_width(s) > width ? width : grid_width(s);
    *owed += gap + (right ? width - w : 0);
    if (*s) {
        fprintf(t->out, "%*s", *owed, "");
        grid_cut(t->out, s, width);
        *owed = 0;
    } else {
        *owed += w;
    }
    *owed += right ? 0 : width - w;
}

// Row -2: names, -1: units, then the cells; columns 0 and [from, to).
static void row(const textplot *t, const int *width, size_t from, size_t to, long i) {
    char buf[CELL], unit[CELL + 2];
    int owed = 0;
    for (size_t j = 0; j < to; j++) {
        if (j > 0 && j < from)
            continue;
        const column *c = &t->f->columns[j];
        const char *s = buf;
        if (i == -2) {
            grid_escape(c->name, t->utf8, buf, sizeof buf);
        } else if (i == -1) {
            grid_escape(c->unit, t->utf8, buf, sizeof buf - 2);
            snprintf(unit, sizeof unit, *buf ? "(%s)" : "%s", buf);
            s = unit;
        } else {
            cell_text(t, c, (size_t)i, buf);
        }
        field(t, s, width[j], c->text == NULL, j ? GAP : 0, &owed);
    }
    fputc('\n', t->out);
}

bool text_table(const textplot *t, err *e) {
    const figure *f = t->f;
    if (f->n_columns == 0)
        return text_nothing(t, "no columns");
    int *width = mem_alloc(f->n_columns, sizeof *width, "a text table", e);
    if (!width)
        return false;
    bool units = false;
    for (size_t j = 0; j < f->n_columns; j++) {
        width[j] = column_width(t, &f->columns[j]);
        units |= *f->columns[j].unit != 0;
    }
    for (size_t from = 1; from == 1 || from < f->n_columns;) {
        int used = width[0];
        size_t to = from;
        while (to < f->n_columns && (to == from || used + GAP + width[to] <= t->columns)) {
            // A column wider than what is left beside the first one is cut.
            if (used + GAP + width[to] > t->columns)
                width[to] = t->columns - used - GAP > 3 ? t->columns - used - GAP : 3;
            used += GAP + width[to++];
        }
        if (from > 1)
            fputc('\n', t->out);
        row(t, width, from, to, -2);
        if (units)
            row(t, width, from, to, -1);
        for (int c = 0; c < used && c < t->columns; c++)
            fputs(t->utf8 ? "\u2500" : "-", t->out);
        fputc('\n', t->out);
        for (size_t i = 0; i < f->columns[0].n; i++)
            row(t, width, from, to, (long)i);
        if (f->columns[0].n == 0)
            text_nothing(t, "no rows");
        if (to <= from)
            break;
        from = to;
    }
    free(width);
    return true;
}
