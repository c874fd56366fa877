// cli/bench_text.h - fields of CSV, Markdown and JUnit XML, quoted as each of them wants it.
#ifndef DELTOP_CLI_BENCH_TEXT_H
#define DELTOP_CLI_BENCH_TEXT_H

#include <stddef.h>
#include <stdio.h>

// CSV (RFC 4180): 17 significant digits, an empty field for NaN. csv_next_* write a comma first.
void csv_text(const char *s, FILE *f);
void csv_next_text(const char *s, FILE *f);
void csv_next(double x, FILE *f);

// Markdown: a cell of a table; a bar inside is escaped.
void markdown_cell(const char *s, FILE *f);

// JUnit: one <testsuite>. Text may hold anything; what XML forbids is escaped or left out.
void junit_begin(const char *name, size_t tests, size_t failures, size_t skipped, FILE *f);
void junit_case(const char *group, const char *name, double seconds, FILE *f);
void junit_failure(const char *type, const char *message, FILE *f);
void junit_skipped(const char *message, FILE *f);
void junit_output(const char *text, FILE *f);
void junit_case_end(FILE *f);
void junit_end(FILE *f);

#endif
