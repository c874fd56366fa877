#include "cli/complete.h"

#include "cli/option_value.h"

#include <string.h>

// "auto|cpu|cuda[:N]|NAME|FILE" to "auto cpu cuda": words in capitals stand for something else, and
// what is in brackets may be left out.
static void plain_words(const char *choices, char *words, size_t size) {
    size_t used = 0;
    words[0] = 0;
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|') {
        size_t n = strcspn(c, "|[");
        bool capitals = strcspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ%") < n;
        if (capitals || n == 0 || used + n + 2 > size)
            continue;
        if (used)
            words[used++] = ' ';
        memcpy(words + used, c, n);
        used += n;
        words[used] = 0;
    }
}

offer_kind complete_offer(const option_spec *s, char *words, size_t size) {
    words[0] = 0;
    if (s->kind == OPT_FLAG)
        return OFFER_NO_VALUE;
    const char *value = option_value_word(s);
    plain_words(s->choices ? s->choices : strchr(value, '|') ? value : "", words, size);
    if (words[0])
        return OFFER_WORDS;
    if (strstr(value, "DIR"))
        return OFFER_FOLDERS;
    if (strstr(value, "FILE") || strstr(value, "MODEL") || strstr(value, "DOCUMENT") ||
        strstr(value, ".so"))
        return OFFER_FILES;
    return OFFER_NOTHING;
}

bool complete_takes_paths(const command *c) {
    return c->words ? c->usage[0] && c->usage[0] != '[' : c->max_models || c->max_documents;
}
