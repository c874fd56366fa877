// What stands on the page.
#include "cli/report/parts.h"

#include "core/mem.h"

bool report_page(assembly *a, err *e) {
    a->page.title = mem_strdup("deltop report", e);
    return a->page.title && page_heading(&a->page, 1, e, "deltop report");
}

void report_say(const assembly *a) {
    (void)a;
}
