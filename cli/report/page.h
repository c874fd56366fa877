// cli/report/page.h - a report as a list of blocks, before it becomes HTML or Markdown.
//
// Texts are plain: whoever draws them escapes what their format and a reader's screen need. They are
// copied; tables are taken.
#ifndef DELTOP_REPORT_PAGE_H
#define DELTOP_REPORT_PAGE_H

#include "analyses/figure.h"
#include "core/err.h"

#include <stdio.h>

typedef enum {
    BLOCK_HEADING, // level 1 .. 3
    BLOCK_TEXT,
    BLOCK_ITEM,    // of a list; neighbours are one list. level: a finding_weight
    BLOCK_TABLE,   // a FIG_TABLE
    BLOCK_PICTURE, // a PNG file; text: what it shows, for those who do not see it; level 1: colours
                   // stand for numbers and are never turned over
    BLOCK_FOLD_BEGIN, // until BLOCK_FOLD_END, shown on demand; text: its title
    BLOCK_FOLD_END,
} block_kind;

// How an item is marked.
typedef enum { WEIGHT_PLAIN, WEIGHT_GOOD, WEIGHT_WARN, WEIGHT_BAD } item_weight;

typedef struct block {
    block_kind kind;
    int level;
    char *text;
    figure *table;
    char *path; // of a picture, relative to the report's folder
} block;

typedef struct page {
    char *title;
    block *v;
    size_t n, room;
} page;

bool page_heading(page *p, int level, err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool page_text(page *p, err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool page_item(page *p, item_weight weight, err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Puts the items from block `from` on, of which all that follows consists, the heavier ones first and
// else in their order; those behind the first `most` are shown on demand.
bool page_weigh_items(page *p, size_t from, size_t most, err *e);
bool page_table(page *p, figure *table, err *e); // takes it, also on failure; NULL = failure
bool page_picture(page *p, const char *path, const char *text, bool colours, err *e);
bool page_fold(page *p, err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool page_unfold(page *p, err *e);
void page_free(page *p); // an empty one is fine

// TEXT safe for a screen: control bytes, marks of writing direction and bytes that are not UTF-8 become
// placeholders (core/text.h). Backslashes stay as they are, since parts of a text may have been
// escaped before. Caller frees; NULL: out of memory.
char *page_shown(const char *text);
// A cell as people read it: text, or a number with the column's digits ("" for NaN).
const char *page_cell(const column *c, size_t i, char *buf, size_t size);

// One self-contained file: pictures (read from FOLDER) are embedded, tables sort by a click, nothing
// is fetched from anywhere.
bool page_html(const page *p, const char *folder, FILE *out, err *e);
// GitHub's dialect; pictures are links.
bool page_markdown(const page *p, FILE *out, err *e);

#endif
