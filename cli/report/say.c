// What a report says where it was started: its findings; the rest is in the files.
#include "cli/check_print.h"
#include "cli/report/parts.h"

#include "cli/wrap.h"
#include "core/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// Sections of the page whose items are told.
static const char *const told[] = {"Missing", "Rules", "Findings"};

static bool is_told(const char *heading) {
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (strcmp(heading, told[i]) == 0)
            return true;
    return false;
}

static void print(const assembly *a) {
    static const char *const marks[] = {"  ", "  ok: ", "  ! ", "  !! "};
    const output *out = a->r->out;
    int columns = wrap_terminal();
    bool inside = false;
    for (size_t i = 0; i < a->page.n; i++) {
        const block *b = &a->page.v[i];
        if (b->kind == BLOCK_HEADING)
            inside = is_told(b->text);
        if (inside && b->kind == BLOCK_HEADING)
            output_print(out, "%s\n", b->text);
        char *shown = inside && b->kind == BLOCK_ITEM ? page_shown(b->text) : NULL;
        if (shown) {
            // Further lines begin below the first word: the mark stands alone.
            int indent = (int)strlen(marks[b->level]);
            output_print(out, "%s", marks[b->level]);
            wrap_print_in(out, shown, indent, indent, columns);
        }
        free(shown);
    }
    if (!a->r->o->quiet)
        output_print(out, "wrote %s/index.html, report.md, results.jsonl, pictures and arrays\n",
                     text_show(a->r->o->out));
}

// The items of one section.
static json_t *items(const assembly *a, const char *heading) {
    static const char *const weights[] = {"note", "good", "warning", "bad"};
    json_t *list = json_array();
    bool inside = false;
    int bad = list == NULL;
    for (size_t i = 0; i < a->page.n; i++) {
        const block *b = &a->page.v[i];
        if (b->kind == BLOCK_HEADING)
            inside = strcmp(b->text, heading) == 0;
        if (inside && b->kind == BLOCK_ITEM)
            bad |= json_array_append_new(list, json_pack("{s:s, s:o}", "weight", weights[b->level],
                                                         "text", output_json_text(b->text)));
    }
    if (bad) {
        json_decref(list);
        return NULL;
    }
    return list;
}

bool report_say(const assembly *a, err *e) {
    if (!a->r->o->json) {
        print(a);
        return true;
    }
    json_t *v = output_head(a->r->out);
    int bad = v == NULL;
    if (v) {
        bad |= json_object_set_new(v, "rows", json_integer((json_int_t)a->r->n_tasks));
        bad |= json_object_set_new(v, "facts", json_integer((json_int_t)a->facts.n));
        bad |= json_object_set_new(v, "missing", items(a, "Missing"));
        bad |= json_object_set_new(v, "findings", items(a, "Findings"));
        if (a->r->rules.rules.n) {
            bad |= json_object_set_new(v, "pass", json_boolean(rule_outcomes_good(&a->outcomes)));
            bad |= json_object_set_new(v, "counts", check_counts_json(&a->outcomes));
            bad |= json_object_set_new(v, "rules", check_json(&a->outcomes));
        }
    }
    if (bad) {
        json_decref(v);
        v = NULL;
    }
    return output_finish(a->r->out, NULL, v, e);
}
