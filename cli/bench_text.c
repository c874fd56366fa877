#include "cli/bench_text.h"

#include "core/text.h"

#include <math.h>
#include <string.h>

void csv_text(const char *s, FILE *f) {
    if (!strpbrk(s, ",\"\n\r")) {
        fputs(s, f);
        return;
    }
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

void csv_next_text(const char *s, FILE *f) {
    fputc(',', f);
    csv_text(s, f);
}

void csv_next(double x, FILE *f) {
    char buf[40] = "";
    if (isfinite(x))
        text_real(x, 17, buf, sizeof buf);
    fprintf(f, ",%s", buf);
}

void markdown_cell(const char *s, FILE *f) {
    fputs("| ", f);
    for (; *s; s++) {
        if (*s == '|')
            fputc('\\', f);
        fputc(*s, f);
    }
    fputc(' ', f);
}

// Control characters other than tab and newline have no place in XML 1.0, not even escaped.
static void xml(const char *s, FILE *f) {
    for (; *s; s++)
        switch (*s) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            if ((unsigned char)*s >= 0x20 || *s == '\t' || *s == '\n')
                fputc(*s, f);
        }
}

void junit_begin(const char *name, size_t tests, size_t failures, size_t skipped, FILE *f) {
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites>\n<testsuite name=\"%s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"%zu\">\n",
            name, tests, failures, skipped);
}

void junit_case(const char *group, const char *name, double seconds, FILE *f) {
    char buf[40];
    text_real(isfinite(seconds) ? seconds : 0, 7, buf, sizeof buf);
    fprintf(f, "<testcase classname=\"%s\" name=\"", group);
    xml(name, f);
    fprintf(f, "\" time=\"%s\">\n", buf);
}

void junit_failure(const char *type, const char *message, FILE *f) {
    fprintf(f, "<failure type=\"%s\" message=\"", type);
    xml(message, f);
    fputs("\"/>\n", f);
}

void junit_skipped(const char *message, FILE *f) {
    fputs("<skipped message=\"", f);
    xml(message, f);
    fputs("\"/>\n", f);
}

void junit_output(const char *text, FILE *f) {
    fputs("<system-out>", f);
    xml(text, f);
    fputs("</system-out>\n", f);
}

void junit_case_end(FILE *f) {
    fputs("</testcase>\n", f);
}

void junit_end(FILE *f) {
    fputs("</testsuite>\n</testsuites>\n", f);
}
