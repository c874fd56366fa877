#include "cli/report/page.h"

#include "core/file.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 512 };

// Light and dark by the reader's setting; tables scroll inside their frame on narrow screens; on
// paper everything folds open and stays black on white. Pictures are drawn on white: in the dark
// their lightness is turned over and their hues are turned back.
static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;"
    "--head:#f4f6f8;--link:#0b62c4;--good:#1a7f37;--warn:#8a5a00;--bad:#c0202c}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e3e7eb;--dim:#9aa4ae;"
    "--line:#343b43;--head:#1f242a;--link:#6cb2ff;--good:#5fd07f;--warn:#e0b050;--bad:#ff7b80}"
    "img{filter:invert(1) hue-rotate(180deg) contrast(.9)}img.map{filter:brightness(.88)}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;padding:1.2rem;max-width:84rem;background:var(--bg);color:var(--fg);"
    "font:16px/1.5 system-ui,'DejaVu Sans',sans-serif;overflow-wrap:anywhere}"
    "h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0 1rem}"
    "h2{font-size:1.25rem;margin:2.2rem 0 .6rem;padding-bottom:.2rem;"
    "border-bottom:1px solid var(--line)}"
    "h3{font-size:1.05rem;margin:1.6rem 0 .4rem}"
    "nav{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:0 0 1rem}a{color:var(--link)}"
    "p{max-width:52rem}p.how{color:var(--dim);font-size:.9rem}"
    "ul{padding-left:1.1rem;max-width:58rem}li{margin:.25rem 0}"
    "li.good::marker{color:var(--good);content:'\\2713\\00a0'}"
    "li.warn::marker{color:var(--warn);content:'!\\00a0'}"
    "li.bad::marker{color:var(--bad);content:'\\2717\\00a0'}"
    "li.warn b{color:var(--warn)}li.bad b{color:var(--bad)}"
    ".wide{overflow-x:auto;margin:.6rem 0 1rem;border:1px solid var(--line);border-radius:6px}"
    "table{border-collapse:separate;border-spacing:0;font-size:.86rem;font-variant-numeric:tabular-"
    "nums;"
    "width:100%;overflow-wrap:normal}"
    "caption{text-align:left;padding:.5rem .6rem;color:var(--dim)}"
    "th,td{padding:.3rem .6rem;border-top:1px solid var(--line);text-align:right;"
    "white-space:nowrap;vertical-align:top}"
    "th{background:var(--head);font-weight:600;border-top:0;position:sticky;top:0}"
    "th small{display:block;font-weight:400;color:var(--dim)}"
    "th.t,td.t{text-align:left}"
    "th:first-child,td:first-child{position:sticky;left:0;background:var(--bg);z-index:1}"
    "thead th:first-child{background:var(--head);z-index:2}"
    "th button{all:unset;cursor:pointer;font-weight:600}"
    "th button:hover{color:var(--link)}th button:focus-visible{outline:2px solid var(--link)}"
    "th[aria-sort=ascending] button::after{content:' \\2191'}"
    "th[aria-sort=descending] button::after{content:' \\2193'}"
    "tbody tr:hover{background:var(--head)}"
    ".note{color:var(--dim);font-size:.86rem;margin:-.4rem 0 1rem}"
    "figure{margin:1rem 0;overflow-x:auto}img{max-width:100%;height:auto;border-radius:4px}"
    "figcaption{color:var(--dim);font-size:.9rem}"
    "details{margin:.6rem 0}summary{cursor:pointer;color:var(--link)}"
    "@media(max-width:600px){body{padding:.8rem;font-size:15px}h1{font-size:1.35rem}"
    "th:first-child,td:first-child{max-width:9rem;white-space:normal}"
    "img{max-width:none;width:60rem}figcaption{position:sticky;left:0}}"
    "@media print{:root{--bg:#fff;--fg:#000;--dim:#444;--line:#bbb;--head:#eee}"
    "nav{display:none}body{max-width:none;font-size:10pt;padding:0}.wide{overflow:visible;border:0}"
    "table{font-size:7.5pt}th,td{white-space:normal;padding:.15rem .3rem}"
    "img{filter:none;max-width:100%;width:auto;max-height:22cm}th,td{position:static!important}tr,"
    "figure,h2,h3{break-inside:avoid}h2,h3{break-after:avoid}}";

// Sorts by the numbers behind the cells, missing ones last. Without it the page reads as it is.
static const char script[] =
    "document.querySelectorAll('th button').forEach(function(b){b.onclick=function(){"
    "var h=b.parentNode,t=h.closest('table'),k=h.cellIndex,y=t.tBodies[0],"
    "d=h.getAttribute('aria-sort')==='descending'?1:-1,text=h.classList.contains('t');"
    "if(text&&!h.hasAttribute('aria-sort'))d=1;"
    "t.querySelectorAll('th').forEach(function(x){x.removeAttribute('aria-sort')});"
    "h.setAttribute('aria-sort',d>0?'ascending':'descending');"
    "Array.from(y.rows).map(function(r,i){return[r,r.cells[k],i]}).sort(function(a,b){"
    "if(text)return "
    "d*a[1].textContent.localeCompare(b[1].textContent,'en',{numeric:true})||a[2]-b[2];"
    "var p=parseFloat(a[1].dataset.v),q=parseFloat(b[1].dataset.v);"
    "if(isNaN(p)||isNaN(q))return isNaN(p)-isNaN(q)||a[2]-b[2];return d*(p-q)||a[2]-b[2]"
    "}).forEach(function(r){y.appendChild(r[0])})}});"
    "addEventListener('beforeprint',function(){document.querySelectorAll('details').forEach("
    "function(d){d.open=true})});";

// Safe for a screen first (control bytes, marks of writing direction), then for HTML.
static void put(FILE *out, const char *text) {
    char *shown = page_shown(text);
    for (const char *c = shown ? shown : "(out of memory)"; *c; c++) {
        switch (*c) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*c, out);
        }
    }
    free(shown);
}

static void put_head(FILE *out, const column *c) {
    fprintf(out, "<th%s scope=\"col\"><button type=\"button\">", c->num ? "" : " class=\"t\"");
    put(out, c->name);
    fputs("</button>", out);
    if (c->unit[0]) {
        fputs("<small>", out);
        put(out, c->unit);
        fputs("</small>", out);
    }
    fputs("</th>", out);
}

static void put_cell(FILE *out, const column *c, size_t i) {
    char cell[CELL], number[64];
    if (c->text) {
        fputs("<td class=\"t\">", out);
        put(out, c->text[i]);
    } else {
        text_real(c->num[i], 17, number, sizeof number);
        if (isnan(c->num[i]))
            fputs("<td>", out);
        else
            fprintf(out, "<td data-v=\"%s\">", number);
        put(out, page_cell(c, i, cell, sizeof cell));
    }
    fputs("</td>", out);
}

static void put_table(FILE *out, const figure *f) {
    fputs("<div class=\"wide\" tabindex=\"0\"><table>", out);
    if (f->title[0]) {
        fputs("<caption>", out);
        put(out, f->title);
        fputs("</caption>", out);
    }
    fputs("<thead><tr>", out);
    for (size_t k = 0; k < f->n_columns; k++)
        put_head(out, &f->columns[k]);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; f->n_columns && i < f->columns[0].n; i++) {
        fputs("<tr>", out);
        for (size_t k = 0; k < f->n_columns; k++)
            put_cell(out, &f->columns[k], i);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    for (size_t i = 0; i < f->n_notes; i++) {
        fputs("<p class=\"note\">", out);
        put(out, f->notes[i]);
        fputs("</p>\n", out);
    }
}

static void put_base64(FILE *out, const unsigned char *v, size_t n) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned x = (unsigned)v[i] << 16 | (unsigned)(i + 1 < n ? v[i + 1] : 0) << 8 |
                     (i + 2 < n ? v[i + 2] : 0);
        fputc(digit[x >> 18], out);
        fputc(digit[x >> 12 & 63], out);
        fputc(i + 1 < n ? digit[x >> 6 & 63] : '=', out);
        fputc(i + 2 < n ? digit[x & 63] : '=', out);
    }
}

static bool put_picture(FILE *out, const char *folder, const block *b, err *e) {
    enum { MOST = 64 << 20 };
    size_t n = 0;
    char *path = file_join(folder, b->path, e), *png = path ? file_read(path, MOST, &n, e) : NULL;
    free(path);
    if (!png)
        return false;
    fprintf(out, "<figure><img%s loading=\"lazy\" alt=\"", b->level ? " class=\"map\"" : "");
    put(out, b->text);
    // Width and height stand at a fixed place in a PNG: the page does not jump while it loads.
    const unsigned char *u = (const unsigned char *)png;
    if (n > 24)
        fprintf(out, "\" width=\"%u\" height=\"%u",
                (unsigned)u[16] << 24 | (unsigned)u[17] << 16 | (unsigned)u[18] << 8 | u[19],
                (unsigned)u[20] << 24 | (unsigned)u[21] << 16 | (unsigned)u[22] << 8 | u[23]);
    fputs("\" src=\"data:image/png;base64,", out);
    put_base64(out, u, n);
    fputs("\"><figcaption>", out);
    put(out, b->text);
    fputs("</figcaption></figure>\n", out);
    free(png);
    return true;
}

// Links to the sections.
static void put_contents(FILE *out, const page *p) {
    const char *open = "<nav>";
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].kind == BLOCK_HEADING && p->v[i].level == 2) {
            fprintf(out, "%s<a href=\"#s%zu\">", open, i);
            put(out, p->v[i].text);
            fputs("</a>", out);
            open = "\n";
        }
    if (open[0] == '\n')
        fputs("</nav>\n", out);
}

static bool put_block(FILE *out, const page *p, size_t i, const char *folder, err *e) {
    static const char *const weights[] = {"", " class=\"good\"", " class=\"warn\"",
                                          " class=\"bad\""};
    const block *b = &p->v[i];
    bool first = b->kind == BLOCK_ITEM && (i == 0 || p->v[i - 1].kind != BLOCK_ITEM);
    bool last = b->kind == BLOCK_ITEM && (i + 1 == p->n || p->v[i + 1].kind != BLOCK_ITEM);
    switch (b->kind) {
    case BLOCK_HEADING:
        fprintf(out, "<h%d id=\"s%zu\">", b->level, i);
        put(out, b->text);
        fprintf(out, "</h%d>\n", b->level);
        if (b->level == 1)
            put_contents(out, p);
        break;
    case BLOCK_TEXT:
        fputs("<p>", out);
        put(out, b->text);
        fputs("</p>\n", out);
        break;
    case BLOCK_ITEM:
        fprintf(out, "%s<li%s>", first ? "<ul>\n" : "", weights[b->level]);
        put(out, b->text);
        fputs(last ? "</li>\n</ul>\n" : "</li>\n", out);
        break;
    case BLOCK_TABLE:
        put_table(out, b->table);
        break;
    case BLOCK_PICTURE:
        return put_picture(out, folder, b, e);
    case BLOCK_FOLD_BEGIN:
        fputs("<details><summary>", out);
        put(out, b->text);
        fputs("</summary>\n", out);
        break;
    case BLOCK_FOLD_END:
        fputs("</details>\n", out);
        break;
    }
    return true;
}

bool page_html(const page *p, const char *folder, FILE *out, err *e) {
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta name=\"generator\" content=\"deltop " DELTOP_VERSION "\">\n<title>",
          out);
    put(out, p->title);
    fprintf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<main>\n", style);
    for (size_t i = 0; i < p->n; i++)
        if (!put_block(out, p, i, folder, e))
            return false;
    fprintf(out, "</main>\n<script>%s</script>\n</body>\n</html>\n", script);
    return ferror(out) ? err_set(e, ERR_IO, "cannot write the page") : true;
}
