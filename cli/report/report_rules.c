#include "cli/report/report_rules.h"

#include "analyses/facts_read.h"
#include "core/file.h"
#include "core/text.h"

#include <stdlib.h>

bool report_rules_open(report_rules *r, const char *path, const char *baseline, err *e) {
    *r = (report_rules){0};
    if (!path)
        return !baseline ||
               err_set(e, ERR_USAGE, "option --baseline: means nothing without --rules");
    bool ok = rules_read(path, &r->rules, e) && rules_names_known(&r->rules, NULL, e) &&
              (r->at = rules_positions(&r->rules, &r->n_at, e)) != NULL;
    const rule *asks = ok ? rules_baseline(&r->rules) : NULL;
    if (asks && !baseline)
        ok =
            err_set(e, ERR_USAGE, "%s, line %d: rule \"%s\" needs a baseline: give --baseline FILE",
                    text_show(path), asks->line, asks->name);
    if (ok && baseline) {
        ok = facts_read_at(baseline, &r->baseline, e);
        r->has_baseline = ok;
    }
    if (!ok)
        report_rules_free(r);
    return ok;
}

void report_rules_free(report_rules *r) {
    rules_free(&r->rules);
    facts_free(&r->baseline);
    free(r->at);
    *r = (report_rules){0};
}
