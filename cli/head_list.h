// cli/head_list.h - heads as people write them: L9.H2, several with commas.
#ifndef DELTOP_HEAD_LIST_H
#define DELTOP_HEAD_LIST_H

#include "core/forward.h"

#include <stddef.h>

enum { HEAD_LIST_MOST = 64 };

// Reads "L9.H2,L3.H1" (also 9.2; letters of either case). At most HEAD_LIST_MOST, none twice.
// ERR_USAGE names what is wrong. Whether the heads exist is fwd_check_heads's question.
bool head_list_read(const char *text, head_ref *out, int *n, err *e);
// One head at *s, which is moved behind it. False: there is none.
bool head_list_one(const char **s, head_ref *out);
// "L9.H2+L3.H1". Returns buf.
char *head_list_name(const head_ref *v, int n, char *buf, size_t size);

#endif
