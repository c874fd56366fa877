#include "cli/dash/numbers.h"

#include <math.h>
#include <stdio.h>

char *scene_count(int64_t n, char *buf, size_t size) {
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < size; i++) {
        buf[at++] = digits[i];
        int left = len - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-')
            buf[at++] = ',';
    }
    buf[at] = 0;
    return buf;
}

char *scene_tokens(int64_t n, char *buf, size_t size) {
    if (n != 0 && n % 1048576 == 0)
        snprintf(buf, size, "%lldM", (long long)(n / 1048576));
    else if (n != 0 && n % 1024 == 0)
        snprintf(buf, size, "%lldk", (long long)(n / 1024));
    else
        scene_count(n, buf, size);
    return buf;
}

char *scene_number(double v, int width, char *buf, size_t size) {
    char one[32];
    if (isnan(v)) {
        snprintf(buf, size, "nan");
        return buf;
    }
    if (isinf(v)) {
        snprintf(buf, size, v > 0 ? "inf" : "-inf");
        return buf;
    }
    if (v == 0) {
        snprintf(buf, size, "0");
        return buf;
    }
    for (int d = 4; d >= 0; d--) {
        int n = snprintf(one, sizeof one, "%.*f", d, v);
        if (n <= width && (d <= 1 || fabs(v) < (d == 2 ? 100 : d == 3 ? 10 : 1))) {
            snprintf(buf, size, "%s", one);
            return buf;
        }
    }
    if (fabs(v) < 1e6)
        snprintf(buf, size, "%.*fk", fabs(v) < 99950 ? 1 : 0, v / 1e3);
    else
        snprintf(buf, size, "%.0e", v);
    return buf;
}
