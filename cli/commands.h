// cli/commands.h - the table of commands.
//
// A command is one file cli/cmd_NAME.c that defines `const command command_NAME`, plus one line in
// COMMAND_LIST below.
#ifndef DELTOP_COMMANDS_H
#define DELTOP_COMMANDS_H

#include "cli/options.h"

#include <stdio.h>

// clang-format off
#define COMMAND_LIST(X) \
    X(view) \
    X(inspect) \
    X(tokens) \
    X(loss) \
    X(erank) \
    X(spectrum) \
    X(report) \
    X(watch) \
    X(parity) \
    X(explain) \
    X(theory) \
    X(words) \
    X(verify) \
    X(bench) \
    X(compare) \
    X(check) \
    X(diff)
// clang-format on

enum { ANY_NUMBER = -1 };

struct command {
    const char *name;
    const char *summary; // what it does: at most 52 columns, no full stop
    const char *usage;   // operands: "MODEL... DOCUMENT..."
    const char *details; // paragraphs of the help text, "\n" between them; may be NULL
    const char *example; // a whole command line, "deltop loss ..."; several with "\n" between
    const char *files;   // what --out DIR receives: "loss.png, loss.json ..."
    // How many models and documents it takes; max ANY_NUMBER: no limit.
    int min_models, max_models, min_documents, max_documents;
    bool words; // operands are words that run() reads: no models, no documents
    // Word i of those that shells offer as operands; false behind the last. May be NULL.
    bool (*offers)(size_t i, char *word, size_t size);
    bool tokenizer_is_model;     // a tokenizer's file, or a folder with one, will do as a model
    const char *document_option; // its own OPT_TEXTS that names further documents; NULL: none
    unsigned takes;              // TAKES_... bits
    const option_spec *own;      // its own options, offsets into a struct of own_size bytes that
    size_t n_own, own_size;      // starts as a copy of own_defaults (NULL: zeros)
    const void *own_defaults;
    // Operands are already split and counted. Returns the exit code; a filled *e wins over it.
    int (*run)(const options *o, err *e);
};

extern const command *const commands[];
extern const size_t n_commands;

// What the exit codes mean (design.md section 5): "0", "128+n"; NULL behind the last.
typedef struct exit_code_row {
    const char *code, *meaning;
} exit_code_row;
extern const exit_code_row exit_code_table[];

const command *command_find(const char *name); // NULL when there is none
// The name nearest to a mistyped one, NULL when nothing is near.
const command *command_nearest(const char *name);
void command_help(const command *c, FILE *f);
void commands_overview(FILE *f);

#endif
