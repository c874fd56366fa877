#include "cli/check_print.h"

#include "cli/bench_text.h"
#include "core/text.h"

#include <string.h>

// "small-deltanet on text_kjv", printable.
static const char *where(const rule_outcome *o, char *buf, size_t size) {
    snprintf(buf, size, "%s%s%s", text_show(o->model), o->document[0] ? " on " : "",
             o->document[0] ? text_show(o->document) : "");
    return buf;
}

void check_print(const output *x, const rule_outcomes *r, bool all) {
    char on[600];
    for (size_t i = 0; i < r->n; i++) {
        const rule_outcome *o = &r->v[i];
        if (o->verdict == RULE_HOLDS && !all)
            continue;
        output_print(x, "%-11s  %s%s%s\n%13s%s\n", rule_verdict_name(o->verdict), o->rule->name,
                     o->model[0] ? ": " : "", where(o, on, sizeof on), "", o->sentence);
    }
    output_print(x, "%zu of %zu hold", r->count[RULE_HOLDS], r->n);
    if (r->count[RULE_BROKEN])
        output_print(x, ", %zu broken", r->count[RULE_BROKEN]);
    if (r->count[RULE_UNDECIDED])
        output_print(x, ", %zu not decided", r->count[RULE_UNDECIDED]);
    output_print(x, " (%zu model%s, %zu reading%s)\n", r->models, r->models == 1 ? "" : "s",
                 r->pairs, r->pairs == 1 ? "" : "s");
}

void check_print_junit(const rule_outcomes *r, FILE *f) {
    junit_begin("deltop check", r->n, r->n - r->count[RULE_HOLDS], 0, f);
    for (size_t i = 0; i < r->n; i++) {
        const rule_outcome *o = &r->v[i];
        char on[600], name[1300];
        where(o, on, sizeof on);
        snprintf(name, sizeof name, "%s%s%s%s", o->rule->name, on[0] ? " (" : "", on,
                 on[0] ? ")" : "");
        junit_case("deltop.check", name, 0, f);
        if (o->verdict != RULE_HOLDS)
            junit_failure(rule_verdict_name(o->verdict), o->sentence, f);
        junit_output(o->sentence, f);
        junit_case_end(f);
    }
    junit_end(f);
}

static bool about_rule(json_t *v, const rule *r) {
    return json_object_set_new(v, "rule", output_json_text(r->name)) == 0 &&
           json_object_set_new(v, "line", json_integer(r->line)) == 0 &&
           json_object_set_new(v, "text", output_json_text(r->text)) == 0;
}

json_t *check_json(const rule_outcomes *r) {
    static const char *const verdict[] = {"holds", "broken", "not decided"};
    json_t *a = json_array();
    bool ok = a != NULL;
    for (size_t i = 0; ok && i < r->n; i++) {
        const rule_outcome *o = &r->v[i];
        json_t *v = json_object();
        ok = v && about_rule(v, o->rule) &&
             json_object_set_new(v, "model", output_json_text(o->model)) == 0 &&
             json_object_set_new(v, "document", output_json_text(o->document)) == 0 &&
             json_object_set_new(v, "verdict", json_string(verdict[o->verdict])) == 0 &&
             json_object_set_new(v, "value", output_json_real(o->value)) == 0 &&
             json_object_set_new(v, "sign", json_string(o->sign)) == 0 &&
             json_object_set_new(v, "bound", output_json_real(o->bound)) == 0 &&
             json_object_set_new(v, "sentence", output_json_text(o->sentence)) == 0;
        ok = json_array_append_new(a, v) == 0 && ok;
    }
    if (ok)
        return a;
    json_decref(a);
    return NULL;
}

json_t *check_counts_json(const rule_outcomes *r) {
    return json_pack("{s:I, s:I, s:I}", "holds", (json_int_t)r->count[RULE_HOLDS], "broken",
                     (json_int_t)r->count[RULE_BROKEN], "not_decided",
                     (json_int_t)r->count[RULE_UNDECIDED]);
}

void check_print_list(const output *x, const rules *r, const int64_t *at, size_t n) {
    for (size_t i = 0; i < r->n; i++) {
        const rule *u = &r->v[i];
        output_print(x, "line %-4d %s\n", u->line, u->name);
        if (strcmp(u->name, u->text) != 0)
            output_print(x, "%10s%s\n", "", text_show(u->text));
    }
    output_print(x, "token counts:");
    for (size_t i = 0; i < n; i++)
        output_print(x, "%s %lld", i ? "," : "", (long long)at[i]);
    output_print(x, "%s\n", n ? "" : " none");
}

json_t *check_list_json(const rules *r) {
    json_t *a = json_array();
    bool ok = a != NULL;
    for (size_t i = 0; ok && i < r->n; i++) {
        json_t *v = json_object();
        ok = v && about_rule(v, &r->v[i]) &&
             json_object_set_new(v, "baseline", json_boolean(r->v[i].baseline)) == 0;
        ok = json_array_append_new(a, v) == 0 && ok;
    }
    if (ok)
        return a;
    json_decref(a);
    return NULL;
}

json_t *check_numbers_json(const int64_t *v, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++)
        if (json_array_append_new(a, json_integer(v[i])) != 0) {
            json_decref(a);
            a = NULL;
        }
    return a;
}
