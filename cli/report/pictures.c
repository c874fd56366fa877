// Pictures and arrays of a report.
#include "cli/report/parts.h"

bool report_pictures(assembly *a, err *e) {
    (void)a, (void)e;
    return true;
}

bool report_arrays(assembly *a, err *e) {
    (void)a, (void)e;
    return true;
}
