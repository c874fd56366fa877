#include "cli/head_list.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

static bool number(const char **s, int *out) {
    int v = 0;
    if (**s < '0' || **s > '9')
        return false;
    while (**s >= '0' && **s <= '9') {
        if (v > 99999)
            return false;
        v = 10 * v + *(*s)++ - '0';
    }
    *out = v;
    return true;
}

bool head_list_one(const char **s, head_ref *out) {
    const char *p = *s;
    if (*p == 'L' || *p == 'l')
        p++;
    if (!number(&p, &out->layer) || *p++ != '.')
        return false;
    if (*p == 'H' || *p == 'h')
        p++;
    if (!number(&p, &out->head))
        return false;
    *s = p;
    return true;
}

bool head_list_read(const char *text, head_ref *out, int *n, err *e) {
    *n = 0;
    for (const char *p = text;;) {
        head_ref h;
        if (*n == HEAD_LIST_MOST)
            return err_set(e, ERR_USAGE, "\"%s\": more than %d heads", text_show(text),
                           HEAD_LIST_MOST);
        if (!head_list_one(&p, &h) || (*p && *p != ','))
            return err_set(e, ERR_USAGE, "\"%s\": expected heads like L9.H2,L3.H1",
                           text_show(text));
        for (int i = 0; i < *n; i++)
            if (out[i].layer == h.layer && out[i].head == h.head)
                return err_set(e, ERR_USAGE, "\"%s\": L%d.H%d stands there twice", text_show(text),
                               h.layer, h.head);
        out[(*n)++] = h;
        if (!*p++)
            return true;
    }
}

char *head_list_name(const head_ref *v, int n, char *buf, size_t size) {
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < n && at < size; i++)
        at +=
            (size_t)snprintf(buf + at, size - at, "%sL%d.H%d", i ? "+" : "", v[i].layer, v[i].head);
    return buf;
}
