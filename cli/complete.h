// cli/complete.h - completion scripts for shells, made from the tables of commands and options.
//
// `deltop help --bash` and `--zsh` print them and `make install` puts them where shells look, so a
// new command or option is completed without a line of its own.
#ifndef DELTOP_COMPLETE_H
#define DELTOP_COMPLETE_H

#include "cli/commands.h"

#include <stdio.h>

typedef enum {
    OFFER_NO_VALUE, // the option is a flag
    OFFER_NOTHING,  // a number, a pattern: nothing to choose from
    OFFER_WORDS,
    OFFER_FILES,
    OFFER_FOLDERS,
} offer_kind;

// What may stand behind an option. OFFER_WORDS: the words with a blank between them, in words[size].
offer_kind complete_offer(const option_spec *s, char *words, size_t size);

// True when paths may stand among the command's operands.
bool complete_takes_paths(const command *c);

void complete_bash(FILE *f);
void complete_zsh(FILE *f);

#endif
