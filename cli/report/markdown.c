#include "cli/report/page.h"

#include "core/text.h"

#include <stdlib.h>
#include <string.h>

enum { CELL = 512 };

// What Markdown or HTML in it would take for markup; text is escaped for screens before. A bar inside
// a table row would end the cell.
static void put(FILE *out, const char *text) {
    char *shown = page_shown(text);
    for (const char *c = shown ? shown : "(out of memory)"; *c; c++) {
        if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '&')
            fputs("&amp;", out);
        else {
            if (strchr("\\`*_[]|#", *c))
                fputc('\\', out);
            fputc(*c, out);
        }
    }
    free(shown);
}

static void put_table(FILE *out, const figure *f) {
    char cell[CELL];
    if (f->title[0]) {
        put(out, f->title);
        fputs("\n\n", out);
    }
    for (size_t k = 0; k < f->n_columns; k++) {
        fputs("| ", out);
        put(out, f->columns[k].name);
        if (f->columns[k].unit[0]) {
            fputs(" (", out);
            put(out, f->columns[k].unit);
            fputs(")", out);
        }
        fputs(" ", out);
    }
    fputs("|\n", out);
    for (size_t k = 0; k < f->n_columns; k++)
        fputs(f->columns[k].num ? "|---:" : "|---", out);
    fputs("|\n", out);
    for (size_t i = 0; f->n_columns && i < f->columns[0].n; i++) {
        for (size_t k = 0; k < f->n_columns; k++) {
            fputs("| ", out);
            if (f->columns[k].num)
                fputs(page_cell(&f->columns[k], i, cell, sizeof cell), out);
            else
                put(out, f->columns[k].text[i]);
            fputs(" ", out);
        }
        fputs("|\n", out);
    }
    for (size_t i = 0; i < f->n_notes; i++) {
        fputs("\n", out);
        put(out, f->notes[i]);
        fputs("\n", out);
    }
    fputs("\n", out);
}

static void put_path(FILE *out, const char *path) {
    for (const unsigned char *c = (const unsigned char *)path; *c; c++)
        if (*c > 0x20 && *c < 0x7f && !strchr("()<>%\"'\\", *c))
            fputc(*c, out);
        else
            fprintf(out, "%%%02x", *c);
}

bool page_markdown(const page *p, FILE *out, err *e) {
    static const char *const marks[] = {"", "", "**!** ", "**!!** "};
    for (size_t i = 0; i < p->n; i++) {
        const block *b = &p->v[i];
        bool list_ends = b->kind == BLOCK_ITEM && (i + 1 == p->n || p->v[i + 1].kind != BLOCK_ITEM);
        switch (b->kind) {
        case BLOCK_HEADING:
            fprintf(out, "%.*s ", b->level, "###");
            put(out, b->text);
            fputs("\n\n", out);
            break;
        case BLOCK_TEXT:
            put(out, b->text);
            fputs("\n\n", out);
            break;
        case BLOCK_ITEM:
            fprintf(out, "- %s", marks[b->level]);
            put(out, b->text);
            fputs(list_ends ? "\n\n" : "\n", out);
            break;
        case BLOCK_TABLE:
            put_table(out, b->table);
            break;
        case BLOCK_PICTURE:
            fputs("![", out);
            put(out, b->text);
            fputs("](", out);
            put_path(out, b->path);
            fputs(")\n\n", out);
            break;
        case BLOCK_FOLD_BEGIN:
            fputs("<details><summary>", out);
            put(out, b->text);
            fputs("</summary>\n\n", out);
            break;
        case BLOCK_FOLD_END:
            fputs("</details>\n\n", out);
            break;
        }
    }
    return ferror(out) ? err_set(e, ERR_IO, "cannot write the summary") : true;
}
